//go:build !purego

package encoding

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
)

func init() {
	if hasAVX2 {
		plainReaders["avx2"] = plainFloatsAVX2
	}
}

func TestAssemblyWritesTheTextThatPlainGoWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	floats := hardFloats()
	for len(floats) < 100_000 || len(floats)%floatBlock != 0 {
		floats = append(floats, randomBits(r), -randomPrice(r), randomPrice(r))
	}
	left := 0
	for ; len(floats) > 0; floats = floats[floatBlock:] {
		block := (*[floatBlock]float64)(floats)
		var plain decimals
		plain.find(block[:])
		sse2 := plain
		plain.split()
		if splitSSE2(&sse2); sse2 != plain {
			t.Fatalf("SSE2 splits the digits of %v\ninto %v,\nnot %v", block, sse2, plain)
		}
		for i := 0; hasAVX2 && i < floatBlock; i++ {
			var got, want [floatBlock * maxFloatText]byte
			n, end := putAVX2(&plain, &got, i, floatBlock)
			if size, stop := plain.putGo(&want, i, end); size != n || stop != end || !bytes.Equal(got[:n], want[:n]) {
				t.Fatalf("AVX2 writes %s, not %s", got[:n], want[:size])
			}
			i = end
		}
		if !hasAVX512 {
			continue
		}
		// What is around must stay as it is.
		var avx512 [3]decimals
		findAVX512(&avx512[1], block, &powersOfTen[0])
		if avx512[0] != (decimals{}) || avx512[2] != (decimals{}) {
			t.Fatal("AVX-512 writes beside the block")
		}
		got := &avx512[1]
		for i, v := range block {
			if got.point[i] == undecided {
				if plain.point[i] != undecided {
					left++
				}
				continue
			}
			if got.point[i] != plain.point[i] || got.halves[i] != plain.halves[i] || got.zeros[i] != plain.zeros[i] || got.last[i] != plain.last[i] || got.sign[i] != plain.sign[i] {
				t.Fatalf("AVX-512 finds for %b %s %d, point %d, not %s %d, point %d", v, halvesText(got, i), got.last[i], got.point[i], halvesText(&plain, i), plain.last[i], plain.point[i])
			}
		}
	}
	if !hasAVX2 || !hasAVX512 {
		if os.Getenv("CI") != "" { // as in package kernel
			t.Fatal("this machine cannot run all of it")
		}
		t.Skip("this machine cannot run all of it")
	}
	if left > 10 {
		t.Errorf("AVX-512 leaves %d of 100,000 that plain Go does not", left)
	}
}

func halvesText(d *decimals, i int) string {
	var text []byte
	for _, half := range d.halves[i] {
		for ; half > 0; half >>= 8 {
			text = append(text, byte(half))
		}
	}
	return string(text)
}
