package encoding

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"texttax/kernel"
)

// fuzzLimits keep what is honestly compressed, and can be 32,768 times as long
// as its bytes, within the bound on allocations.
var fuzzLimits = Limits{Bars: 1 << 14, Combos: 1 << 11}

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
		was := slices.Clone(body)
		var req Request
		err := decodeWatched(t, body, fuzzLimits, &req)
		if !slices.Equal(body, was) {
			t.Error("the body was changed")
		}
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("the error's text has %d bytes", len(err.Error()))
			}
			return
		}
		if len(req.Close) > fuzzLimits.Bars || len(req.Params) > fuzzLimits.Combos {
			t.Error("the limits were not held")
		}
		written, failure := Arrow.Append(nil, &req)
		if failure != nil {
			t.Fatal(failure)
		}
		var again Request
		if err := decodeWatched(t, written, fuzzLimits, &again); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(hexBits(again.Close), hexBits(req.Close)) || !slices.Equal(again.Params, req.Params) ||
			(again.Close == nil) != (req.Close == nil) || (again.Params == nil) != (req.Params == nil) {
			t.Errorf("written and read again: %v, %v; was %v, %v", again.Close, again.Params, req.Close, req.Params)
		}
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
		var res, again kernel.Results
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
		written, err := Arrow.AppendResults(nil, &res)
		if err != nil {
			t.Fatal(err)
		}
		if err := Arrow.DecodeResults(written, &again); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(hexBits(again.PnL), hexBits(res.PnL)) || !slices.Equal(again.Trades, res.Trades) || !slices.Equal(again.Open, res.Open) {
			t.Errorf("written and read again: %v; was %v", again, res)
		}
	})
}
