package loadtest

import (
	"testing"
	"time"
)

func TestServerTiming(t *testing.T) {
	for header, want := range map[string]map[Phase]time.Duration{
		"":                                     {},
		"decode;dur=1.5, compute;dur=0.000001": {Decode: 1_500_000, Compute: 1},
		"decode;desc=\"x\";dur=2":              {Decode: 2_000_000},
		"decode;dur=1,decode;dur=2":            {Decode: 3_000_000},
		"transit_in;dur=7, cdn-cache;desc=HIT, transit;dur=3, client_encode;dur=3, miss": {},
		"decode;dur=, queue;dur=-1, compute;dur=NaN, encode;dur=1e99, compress;dur=x":    {},
		"  queue ;dur=1": {}, "queue; dur=1": {Queue: 1_000_000},
	} {
		var got ServerTiming
		got.parse(header)
		for _, p := range Phases() {
			spent, known := got.Of(p)
			if d, ok := want[p]; ok != known || d != spent {
				t.Errorf("%q: %s is %v, %v and not %v", header, p, spent, known, d)
			}
		}
	}
}

func FuzzServerTiming(f *testing.F) {
	f.Add("transit_in;dur=1.0, decode;dur=1.5;desc=x, compute;dur=0.000001")
	f.Fuzz(func(t *testing.T, header string) {
		var got ServerTiming
		got.parse(header)
		for _, p := range Phases() {
			if spent, known := got.Of(p); spent < 0 || known && (p < Decompress || p > Compress) {
				t.Errorf("%s is %v", p, spent)
			}
		}
	})
}
