package encoding

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"texttax/kernel"
)

func addGoldens(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/arrow/*.arrows")
	if err != nil || len(files) == 0 {
		f.Fatal("no goldens: ", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(body) < 4096 { // long seeds make slow mutations
			f.Add(body)
		}
	}
}

func FuzzArrowDecode(f *testing.F) {
	addGoldens(f)
	f.Add(append(closeSchema(), closeBatch(3, 0b111).bytes()...))
	f.Add(forgedColumn(3, codecZSTD, prefixed(24, packZSTD(f, make([]byte, 24)))))
	f.Add(forgedColumn(3, codecLZ4, prefixed(24, packLZ4(f, make([]byte, 24)))))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := fuzzDecode(t, Arrow, body)
		if err != nil {
			return
		}
		fuzzRewrite(t, Arrow, req)
	})
}

func FuzzArrowDecodeResults(f *testing.F) {
	addGoldens(f)
	written, err := Arrow.AppendResults(nil, &kernel.Results{PnL: []float64{1}, Trades: []int64{2}, Open: []int8{1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	f.Fuzz(func(t *testing.T, body []byte) {
		var res kernel.Results
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Arrow.DecodeResults(body, &res)
		runtime.ReadMemStats(&after)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e == nil {
				t.Fatalf("got the error %#v, which is no *Error", err)
			}
		}
		// An answer has no limits: what is compressed can be as long as its
		// bytes can stand for.
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(2*len(body)+1<<20+34*len(res.PnL)) &&
			err == nil {
			t.Errorf("decoding %d bytes allocated %d", len(body), allocated)
		}
		if err != nil {
			return
		}
		fuzzRewriteResults(t, Arrow, &res)
	})
}
