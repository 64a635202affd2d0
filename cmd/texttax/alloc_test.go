//go:build !race

package main

import (
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// Under the race detector sync.Pool drops at random what it is given, so that
// there is no steady state to look at. There is none either while requests
// move between processors, each of which has its part of a pool, or while the
// garbage collector empties the pools.

func TestAMegabyteOfOctetsCostsNoAllocationOfItsSize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	web := httptest.NewServer(newTestStack().public)
	defer web.Close()
	for name, body := range map[string][]byte{
		"bare closes": encode(t, encoding.Octet, &encoding.Request{Close: gbm42.Close()}),
		"frame":       encode(t, encoding.Octet, &encoding.Request{Op: encoding.OpEcho, Close: gbm42.Close(), Params: []kernel.Params{kernel.Expand(6)}}),
	} {
		c := newLeanClient(t, web.URL, "/echo", body, "")
		for range 10 { // until the pools are warm
			c.do(t)
		}
		const requests = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range requests {
			c.do(t)
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / requests; each > 1_200_000/4 {
			t.Errorf("%s: %d bytes are allocated for each request", name, each)
		} else {
			t.Logf("%s: %d bytes in %d allocations for each request", name, each, (after.Mallocs-before.Mallocs)/requests)
		}
	}
}

func TestAMegabyteInAFrameCostsNoAllocationOfItsSize(t *testing.T) {
	s := startFrames(t)
	for _, at := range s.frames {
		c := dialFrames(t, at)
		sent := frame(t, encoding.OpEcho, gbm42.Close())
		answer := make([]byte, 4+8*gbm42.Bars)
		for range 10 {
			roundTrip(t, c, sent, answer)
		}
		const frames = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range frames {
			roundTrip(t, c, sent, answer)
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / frames; each > 1_200_000/4 {
			t.Errorf("%s: %d bytes are allocated for each frame", at, each)
		} else {
			t.Logf("%s: %d bytes in %d allocations for each frame", at, each, (after.Mallocs-before.Mallocs)/frames)
		}
	}
}
