package gbm42

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// The hash is the published one of the series' bytes.
func TestTheSeriesIsThePublishedOne(t *testing.T) {
	if len(Close()) != Bars {
		t.Fatalf("%d bars, want %d", len(Close()), Bars)
	}
	var raw []byte
	for _, v := range Close() {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	sum := sha256.Sum256(raw)
	const want = "42e58fb99a4734653ea5a9f7f6dbddf8204b626754a448a8a78560d02511b947"
	if SHA256 != want {
		t.Errorf("SHA256 is %s, want %s", SHA256, want)
	}
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("sha256 %s, want %s", got, want)
	}
}

func TestTheSeriesIsDecodedOnce(t *testing.T) {
	first, second := Close(), Close()
	if &first[0] != &second[0] {
		t.Error("two calls give different memory")
	}
}
