package handlers

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"texttax/encoding"
)

// unbounded grants all memory that is asked for.
func unbounded(int) error { return nil }

func TestABufferHoldsWhatWasRead(t *testing.T) {
	want := make([]byte, 300_001)
	for i := range want {
		want[i] = byte(i * 7)
	}
	for _, offset := range []int{0, 7} {
		for _, size := range []int{0, 1, 4095, 4096, 4097, 8192, 100_000, 300_001} {
			for _, declared := range []int64{-1, int64(size)} {
				for name, in := range map[string]io.Reader{
					"whole":           bytes.NewReader(want[:size]),
					"byte by byte":    iotest.OneByteReader(bytes.NewReader(want[:size])),
					"data with EOF":   iotest.DataErrReader(bytes.NewReader(want[:size])),
					"half of the ask": iotest.HalfReader(bytes.NewReader(want[:size])),
				} {
					b := newBuffer(1)
					if err := b.read(in, declared, int64(size), offset, unbounded); err != nil || !bytes.Equal(b.bytes, want[:size]) {
						t.Errorf("%s, %d bytes, %d declared, offset %d: %d bytes, %v", name, size, declared, offset, len(b.bytes), err)
					}
					b.release()
				}
			}
		}
	}
}

func TestABufferStopsAtTheLimitAndNeverAllocatesBeyondIt(t *testing.T) {
	const limit = 20 << 20
	for name, declared := range map[string]int64{"chunked": -1, "declared": 1 << 40} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := newBuffer(1)
		err := b.read(endless{}, declared, limit, 0, unbounded)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errOverLimit) {
			t.Errorf("%s: %v", name, err)
		}
		if len(b.memory) > limit+16 {
			t.Errorf("%s: %d bytes for a limit of %d", name, len(b.memory), limit)
		}
		// Growing copies: all that it grew through is less than twice the limit.
		if all := after.TotalAlloc - before.TotalAlloc; all > 3*limit {
			t.Errorf("%s: %d bytes were allocated", name, all)
		}
	}
}

func TestADeclaredLengthIsNotBelieved(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b := newBuffer(1)
	if err := b.read(bytes.NewReader(make([]byte, 10)), 1<<40, 1<<41, 0, unbounded); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > 2*trusted {
		t.Errorf("%d bytes were allocated for 10", all)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestBuffersComeBackFromThePoolLargeEnough(t *testing.T) {
	for _, n := range []int{1, 4096, 4097, 5000, 1 << 20, 1<<20 + 1, largestPooled, largestPooled + 1} {
		b := newBuffer(n)
		b.set(append(b.empty(), make([]byte, n+n/3)...))
		b.release()
		for range 4 {
			if again := newBuffer(n); len(again.memory) < n {
				t.Errorf("a buffer for %d bytes has %d", n, len(again.memory))
			}
		}
	}
}

func TestTheFloatsOfAFrameAreAlignedInABuffer(t *testing.T) {
	if offset := encoding.BodyOffset(encoding.Octet, 9+8*3); (offset+9)%8 != 0 {
		t.Errorf("offset %d", offset)
	}
	if offset := encoding.BodyOffset(encoding.Octet, 8*3); offset != 0 {
		t.Errorf("offset %d", offset)
	}
}
