package handlers

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"unsafe"
)

// buffer is pooled memory for a body. It is 8-aligned, so that the numbers in
// a body can be used where they lie.
type buffer struct {
	memory []byte
	bytes  []byte // the part in use
}

const (
	smallestBuffer = 4 << 10
	// largestPooled is the largest buffer that goes back to a pool: what one
	// huge request needed is not kept for ever.
	largestPooled = 16 << 20
	// trusted is how much of a declared length is allocated before any byte of
	// it has come. A longer body gets its memory as it proves itself.
	trusted = 4 << 20
)

// pools holds buffers of 4 KiB, 8 KiB and so on.
var pools [13]sync.Pool

// class returns the pool for buffers of at least n bytes.
func class(n int) int { return max(0, bits.Len(uint(n-1))-bits.Len(smallestBuffer-1)) }

// newBuffer returns an empty buffer with room for n bytes.
func newBuffer(n int) *buffer {
	if n > largestPooled {
		return &buffer{memory: alignedBytes(n)}
	}
	c := class(max(n, smallestBuffer))
	if b, ok := pools[c].Get().(*buffer); ok {
		return b
	}
	return &buffer{memory: alignedBytes(smallestBuffer << c)}
}

func alignedBytes(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// release gives the buffer back. Nothing of it may be used any more.
func (b *buffer) release() {
	if b == nil || len(b.memory) > largestPooled || len(b.memory) < smallestBuffer {
		return
	}
	// What append has made elsewhere may have any size; it goes to the pool
	// whose requests it certainly can serve.
	c := bits.Len(uint(len(b.memory))) - bits.Len(uint(smallestBuffer))
	b.bytes = nil
	pools[c].Put(b)
}

// reserve makes the buffer's memory at least n bytes, keeping the first used.
func (b *buffer) reserve(n, used int) {
	if len(b.memory) >= n {
		return
	}
	larger := newBuffer(n)
	copy(larger.memory, b.memory[:used])
	b.memory, larger.memory = larger.memory, b.memory
	larger.release()
}

// read fills the buffer from in, beginning offset bytes into its memory. The
// length is what the client declared, or -1; more than limit bytes are
// errOverLimit. Memory grows with what has come, up to the length or limit and
// never beyond; room is asked before it does, for a body of so many bytes.
func (b *buffer) read(in io.Reader, length, limit int64, offset int, room func(n int) error) error {
	most := limit + 1 // one byte more tells that there is more
	first := int64(smallestBuffer)
	if length >= 0 {
		most = min(most, length)
		first = min(length, trusted)
	}
	if err := room(int(first)); err != nil {
		return err
	}
	b.reserve(offset+int(first), 0)
	used, end := offset, offset+int(first) // the memory may be larger, but nobody has been asked for that
	for {
		if used == end {
			end = max(used+1, min(2*used, offset+int(most)))
			if err := room(end - offset); err != nil {
				return err
			}
			b.reserve(end, used)
		}
		n, err := in.Read(b.memory[used:end])
		used += n
		if int64(used-offset) > limit {
			return errOverLimit
		}
		if errors.Is(err, io.EOF) {
			b.bytes = b.memory[offset:used]
			return nil
		}
		if err != nil {
			b.bytes = b.memory[offset:used]
			return err
		}
	}
}

var errOverLimit = errors.New("over the limit")

// empty returns the buffer's memory as an empty slice to append to.
func (b *buffer) empty() []byte { return b.memory[:0] }

// set makes body, which append made out of empty, the buffer's contents.
func (b *buffer) set(body []byte) {
	b.bytes = body
	b.memory = body[:cap(body)]
}
