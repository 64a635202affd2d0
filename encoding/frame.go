package encoding

import (
	"encoding/binary"
	"errors"
	"io"
	"unsafe"

	"texttax/kernel"
)

// The frame protocol carries sweeps and echoes over a stream of bytes, such as
// a Unix socket, without HTTP. Both ways go frames, a length and a body:
//
//	[u32 length of the body][body]
//
// The body of a request is Octet's frame, that of the reply is Octet's answer.
// Replies come in the order of the requests, which need not wait for them.
// There is no error reply: a server closes the connection over a frame that it
// does not serve.

// FramePrefix is the number of bytes of a frame's length.
const FramePrefix = 4

// MinFrameBody is the length of the shortest body of a request.
const MinFrameBody = frameHeader

// IsFrameBody tells whether the body of a request can have so many bytes.
func IsFrameBody(length int64) bool {
	return length >= MinFrameBody && length%8 == frameHeader%8
}

// AppendFrame appends a request as a frame to dst, a sweep unless its Op says
// echo. A failure is an *Error, for what a frame has no place for.
func AppendFrame(dst []byte, req *Request) ([]byte, error) {
	sent := Request{Op: max(req.Op, OpSweep), Close: req.Close, Params: req.Params,
		Lengths: req.Lengths, Dataset: req.Dataset, HasFee: req.HasFee}
	start := len(dst)
	framed, err := Octet.Append(append(dst, 0, 0, 0, 0), &sent)
	if err != nil {
		return dst, err
	}
	length := len(framed) - start - FramePrefix
	if uint64(length) > 1<<32-1 {
		return dst, &Error{Kind: Unspeakable, Index: -1, Detail: "a frame counts its bytes in 32 bits"}
	}
	binary.LittleEndian.PutUint32(framed[start:], uint32(length))
	return framed, nil
}

// AppendFrameResults appends the reply to a sweep to dst, as a frame.
func AppendFrameResults(dst []byte, res *kernel.Results) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(res.PnL)*bytesResults))
	dst, _ = Octet.AppendResults(dst, res) // octets can say any results
	return dst
}

// EchoReply makes the reply to an echo, as a frame, out of the body of the
// request and in its memory: the floats stay where they lie. Octet.Decode must
// have taken the body, and found so many bars.
func EchoReply(body []byte, bars int) []byte {
	reply := body[frameHeader-FramePrefix:][:FramePrefix+bars*bytesPrice]
	binary.LittleEndian.PutUint32(reply, uint32(bars*bytesPrice))
	return reply
}

// A FrameReader takes a stream apart into frames. It reads ahead as far as its
// buffer goes, so that a small frame costs one read, and reads what is larger
// straight to where it is wanted.
type FrameReader struct {
	in        io.Reader
	buffer    []byte
	next, end int   // what is in the buffer, and not taken yet
	left      int64 // of the frame's body, not taken yet
}

// firstByte is where in the buffer a frame begins that comes into an empty
// one, so that its floats are aligned.
const firstByte = 8 - (FramePrefix+frameHeader)%8

// smallestFrameBuffer has room for a prefix and a header.
const smallestFrameBuffer = 64

// NewFrameReader returns a reader of the frames of in. The buffer should be
// 8-aligned; without one, or with one that is too small, the reader makes its own.
func NewFrameReader(in io.Reader, buffer []byte) *FrameReader {
	if len(buffer) < smallestFrameBuffer {
		words := make([]uint64, 512)
		buffer = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
	}
	return &FrameReader{in: in, buffer: buffer, next: firstByte, end: firstByte}
}

// Buffered returns how many bytes have been read from the stream, and not yet
// from the reader.
func (f *FrameReader) Buffered() int { return f.end - f.next }

// Await waits for the first byte of the next frame. io.EOF says that the
// stream has ended before it.
func (f *FrameReader) Await() error {
	if f.Buffered() > 0 {
		return nil
	}
	return f.fill()
}

// Next goes to the next frame, and returns the length of its body as the frame
// has it, which may be a lie. The body before must have been read to its end.
// io.EOF says that there is no next frame, io.ErrUnexpectedEOF that the stream
// has ended within the length.
func (f *FrameReader) Next() (int64, error) {
	for f.Buffered() < FramePrefix {
		if err := f.fill(); err != nil {
			if f.Buffered() > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	f.left = int64(binary.LittleEndian.Uint32(f.buffer[f.next:]))
	f.next += FramePrefix
	return f.left, nil
}

// Whole returns the body if all of it has already come and is in the buffer,
// where it stays until the reader is used again.
func (f *FrameReader) Whole() ([]byte, bool) {
	if f.left > int64(f.Buffered()) {
		return nil, false
	}
	body := f.buffer[f.next:][:f.left:f.left]
	f.next += len(body)
	f.left = 0
	return body, true
}

// Read reads of the frame's body, up to its end, which is io.EOF and comes
// with the last byte. A stream that ends before is io.ErrUnexpectedEOF.
func (f *FrameReader) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), f.left)]
	n := copy(p, f.buffer[f.next:f.end])
	f.next += n
	if n == 0 {
		var err error
		n, err = f.in.Read(p)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	f.left -= int64(n)
	if f.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// AppendBody appends the frame's body to dst. Memory grows with what has come,
// whatever the frame says of its length.
func (f *FrameReader) AppendBody(dst []byte) ([]byte, error) {
	const step = 1 << 20
	for f.left > 0 {
		if len(dst) == cap(dst) {
			more := make([]byte, 0, max(2*len(dst), len(dst)+int(min(f.left, step))))
			dst = append(more, dst...)
		}
		n, err := f.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return dst, err
		}
	}
	return dst, nil
}

// fill reads into the buffer what comes with one read, at least a byte.
func (f *FrameReader) fill() error {
	if f.next == f.end {
		f.next, f.end = firstByte, firstByte
	} else if f.end == len(f.buffer) {
		f.end = firstByte + copy(f.buffer[firstByte:], f.buffer[f.next:f.end])
		f.next = firstByte
	}
	for range 100 {
		n, err := f.in.Read(f.buffer[f.end:])
		f.end += n
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
