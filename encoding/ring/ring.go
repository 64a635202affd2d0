package ring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Size is the number of bytes of a ring, unless another is asked for. It is a
// part of a core's second-level cache.
const Size = 256 << 10

// maxSize bounds what a listener can make the one who connects map.
const maxSize = 1 << 30

// positions are what two processes share about a ring.
type positions struct {
	tail         atomic.Uint64
	_            [120]byte
	head         atomic.Uint64
	_            [120]byte
	readerSleeps atomic.Uint32
	_            [124]byte
	writerSleeps atomic.Uint32
	_            [124]byte
}

const (
	positionsSize = 512
	page          = 4096
)

// total is the size of the memory of two rings.
func total(size int) int { return page + 2*size }

// positionsAt returns the positions of ring 0 or 1 in the memory.
func positionsAt(memory []byte, ring int) *positions {
	return (*positions)(unsafe.Pointer(&memory[ring*positionsSize : (ring+1)*positionsSize][0]))
}

// bytesAt returns the bytes of ring 0 or 1 in the memory.
func bytesAt(memory []byte, ring, size int) []byte {
	return memory[page+ring*size:][:size:size]
}

// errCorrupt ends a connection whose peer has published a position that can't
// be.
var errCorrupt = errors.New("ring: the peer has published an impossible position")

// writer is the end of a ring that bytes go into.
type writer struct {
	shared *positions
	bytes  []byte
	tail   uint64 // as published
	head   uint64 // as last seen
}

// step is how much is written before it is published: while the reader takes
// one step, the next is written.
const step = 32 << 10

// write copies as much of p as there is room for, up to a step, and publishes
// it.
func (w *writer) write(p []byte) (int, error) {
	n := min(len(p), step)
	free := len(w.bytes) - int(w.tail-w.head)
	if free < n {
		var err error
		if free, err = w.room(); err != nil {
			return 0, err
		}
		n = min(n, free)
	}
	if n == 0 {
		return 0, nil
	}
	at := int(w.tail & uint64(len(w.bytes)-1))
	copied := copy(w.bytes[at:], p[:n])
	copy(w.bytes, p[copied:n])
	w.tail += uint64(n)
	w.shared.tail.Swap(w.tail) // see Conn.await
	return n, nil
}

// room looks how much the reader has left free.
func (w *writer) room() (int, error) {
	head := w.shared.head.Load()
	used := w.tail - head
	if used > uint64(len(w.bytes)) {
		return 0, fmt.Errorf("%w: %d bytes read of %d", errCorrupt, head, w.tail)
	}
	w.head = head
	return len(w.bytes) - int(used), nil
}

// reader is the end of a ring that bytes come out of.
type reader struct {
	shared *positions
	bytes  []byte
	head   uint64 // as published
	tail   uint64 // as last seen
}

// read copies what is there to p, and leaves its room to the writer.
func (r *reader) read(p []byte) (int, error) {
	there := int(r.tail - r.head)
	if there == 0 {
		var err error
		if there, err = r.waiting(); err != nil || there == 0 {
			return 0, err
		}
	}
	n := min(len(p), there)
	at := int(r.head & uint64(len(r.bytes)-1))
	copied := copy(p[:n], r.bytes[at:])
	copy(p[copied:n], r.bytes)
	r.head += uint64(n)
	r.shared.head.Swap(r.head) // see Conn.await
	return n, nil
}

// waiting looks how much the writer has written and we have not read.
func (r *reader) waiting() (int, error) {
	tail := r.shared.tail.Load()
	there := tail - r.head
	if there > uint64(len(r.bytes)) {
		return 0, fmt.Errorf("%w: %d bytes written, %d read", errCorrupt, tail, r.head)
	}
	r.tail = tail
	return int(there), nil
}
