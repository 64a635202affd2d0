package ring

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// pair is a ring in plain memory, with guards around its bytes.
func pair(size int) (*writer, *reader, func() bool) {
	const guard = 64
	memory := bytes.Repeat([]byte{0xEE}, guard+size+guard)
	ring, shared := memory[guard:][:size:size], new(positions)
	intact := func() bool {
		return bytes.Count(memory[:guard], []byte{0xEE}) == guard && bytes.Count(memory[guard+size:], []byte{0xEE}) == guard
	}
	return &writer{shared: shared, bytes: ring}, &reader{shared: shared, bytes: ring}, intact
}

func TestPositionsShareNoLine(t *testing.T) {
	memory := make([]byte, page)
	p := positionsAt(memory, 0)
	p.tail.Store(1)
	p.head.Store(2)
	p.readerSleeps.Store(3)
	p.writerSleeps.Store(4)
	positionsAt(memory, 1).tail.Store(5)
	for at, want := range map[int]byte{0: 1, 128: 2, 256: 3, 384: 4, 512: 5} {
		if memory[at] != want {
			t.Errorf("at %d is %d, not %d", at, memory[at], want)
		}
	}
}

func TestBytesComeOutAsTheyWentIn(t *testing.T) {
	w, r, intact := pair(64)
	var in, out byte
	buffer := make([]byte, 100)
	for i := range 10_000 {
		for k := range buffer {
			buffer[k] = in + byte(k)
		}
		n, err := w.write(buffer[:i%97])
		if err != nil || n > i%97 {
			t.Fatal(n, err)
		}
		in += byte(n)
		n, err = r.read(buffer[:i%89])
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range buffer[:n] {
			if b != out {
				t.Fatalf("round %d: %d came out, not %d", i, b, out)
			}
			out++
		}
	}
	if !intact() {
		t.Error("bytes beside the ring were changed")
	}
}

func TestARingIsFullAndEmpty(t *testing.T) {
	w, r, _ := pair(64)
	if n, err := r.read(make([]byte, 8)); n != 0 || err != nil {
		t.Errorf("%d of nothing, %v", n, err)
	}
	if n, err := w.write(make([]byte, 100)); n != 64 || err != nil {
		t.Errorf("%d went in, %v", n, err)
	}
	if n, err := w.write(make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("%d went into a full ring, %v", n, err)
	}
	if n, err := r.read(make([]byte, 100)); n != 64 || err != nil {
		t.Errorf("%d came out, %v", n, err)
	}
}

func TestImpossiblePositionsAreRefused(t *testing.T) {
	for _, forged := range []uint64{1, 65, 1 << 32, 1 << 63, math.MaxUint64} {
		w, r, intact := pair(64)
		r.shared.tail.Store(forged)
		n, err := r.read(make([]byte, 100))
		if forged == 1 {
			if n != 1 || err != nil {
				t.Errorf("tail %d: %d, %v", forged, n, err)
			}
		} else if n != 0 || !errors.Is(err, errCorrupt) {
			t.Errorf("tail %d: %d, %v", forged, n, err)
		}
		if n, err := w.write(make([]byte, 64)); n != 64 || err != nil {
			t.Fatal(n, err)
		}
		w.shared.head.Store(forged)
		n, err = w.write(make([]byte, 100))
		if forged == 1 {
			if n != 1 || err != nil {
				t.Errorf("head %d: %d, %v", forged, n, err)
			}
		} else if n != 0 || !errors.Is(err, errCorrupt) {
			t.Errorf("head %d: %d, %v", forged, n, err)
		}
		if !intact() {
			t.Error("bytes beside the ring were changed")
		}
	}
	w, r, _ := pair(64)
	if _, err := w.write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.shared.tail.Store(9) // it goes back
	if _, err := r.read(make([]byte, 10)); !errors.Is(err, errCorrupt) {
		t.Errorf("a tail that goes back: %v", err)
	}
}

// A peer can write whatever it likes to the shared positions at any moment.
// We must stay within the ring, and never hand out or take more than it holds.
func FuzzPositions(f *testing.F) {
	f.Add([]byte{0, 10, 1, 20, 2, 5, 3, 7})
	f.Add([]byte{0, 255, 4, 0, 0, 1, 5, 255, 1, 1})
	f.Add([]byte{0, 64, 6, 200, 1, 64, 7, 100, 0, 64})
	f.Fuzz(func(t *testing.T, moves []byte) {
		const size = 64
		w, r, intact := pair(size)
		buffer := make([]byte, 300)
		for ; len(moves) >= 2; moves = moves[2:] {
			what, v := moves[0]%8, uint64(moves[1])
			switch what {
			case 0:
				tail := w.tail
				n, err := w.write(buffer[:v])
				if n > int(v) || n > size || err != nil && n != 0 || w.tail != tail+uint64(n) {
					t.Fatalf("wrote %d of %d, %v", n, v, err)
				}
			case 1:
				head := r.head
				n, err := r.read(buffer[:v])
				if n > int(v) || n > size || err != nil && n != 0 || r.head != head+uint64(n) {
					t.Fatalf("read %d of %d, %v", n, v, err)
				}
			case 2:
				r.shared.tail.Store(v)
			case 3:
				w.shared.head.Store(v)
			case 4:
				r.shared.tail.Add(v << 56)
			case 5:
				w.shared.head.Add(v << 56)
			case 6:
				r.shared.tail.Add(v)
			case 7:
				w.shared.head.Add(-v)
			}
		}
		if !intact() {
			t.Fatal("bytes beside the ring were changed")
		}
	})
}
