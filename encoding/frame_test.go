package encoding

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"texttax/kernel"
)

func mustFrame(t testing.TB, req *Request) []byte {
	t.Helper()
	frame, err := AppendFrame(nil, req)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestAFrameIsTheOctetBodyAfterItsLength(t *testing.T) {
	req := &Request{Close: []float64{1, 2, 3}, Params: []kernel.Params{kernel.Expand(6)}}
	body, err := Octet.Append(nil, req)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := AppendFrame([]byte("before"), req)
	if want := slices.Concat([]byte("before"), binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body); err != nil || !bytes.Equal(frame, want) {
		t.Errorf("%x, %v", frame, err)
	}
	for op, opcode := range map[Op]byte{OpUnset: 0, OpSweep: 0, OpEcho: 1} {
		if got := mustFrame(t, &Request{Op: op, Close: []float64{1}}); got[4] != opcode || len(got) != 4+9+8 {
			t.Errorf("op %d makes %x", op, got)
		}
	}
	for field, req := range map[string]*Request{"fee": {HasFee: true}, "dataset": {Dataset: "x"}, "lengths": {Lengths: []int64{6}}} {
		got, err := AppendFrame([]byte("before"), req)
		var e *Error
		if !errors.As(err, &e) || e.Field != field || string(got) != "before" {
			t.Errorf("%s: %q, %v", field, got, err)
		}
	}
}

func TestRepliesAreTheOctetAnswersAfterTheirLength(t *testing.T) {
	res := &kernel.Results{PnL: []float64{1, -2}, Trades: []int64{3, 4}, Open: []int8{1, 0}}
	answer, err := Octet.AppendResults(nil, res)
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendFrameResults(nil, res); !bytes.Equal(got[4:], answer) || binary.LittleEndian.Uint32(got) != 32 {
		t.Errorf("%x", got)
	}
	for n := range 4 {
		frame := mustFrame(t, &Request{Op: OpEcho, Close: []float64{1, math.NaN(), 3}[:min(n, 3)], Params: make([]kernel.Params, n)})
		want := slices.Clone(frame[13:][:8*min(n, 3)])
		got := EchoReply(frame[4:], min(n, 3))
		if !bytes.Equal(got[4:], want) || int(binary.LittleEndian.Uint32(got)) != len(want) {
			t.Errorf("%d bars: %x", n, got)
		}
	}
}

// readers deliver a stream in different pieces.
func readers(stream []byte) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":           bytes.NewReader(stream),
		"byte by byte":    iotest.OneByteReader(bytes.NewReader(stream)),
		"half of the ask": iotest.HalfReader(bytes.NewReader(stream)),
		"data with EOF":   iotest.DataErrReader(bytes.NewReader(stream)),
	}
}

// takeFrames reads all frames of a stream, each in the way that its number
// says.
func takeFrames(r *FrameReader) (bodies [][]byte, err error) {
	for i := 0; ; i++ {
		if i%2 == 0 {
			if err := r.Await(); err != nil {
				return bodies, err
			}
		}
		n, err := r.Next()
		if err != nil {
			return bodies, err
		}
		body, whole := []byte(nil), false
		if i%3 == 0 {
			body, whole = r.Whole()
			body = slices.Clone(body)
		}
		if !whole {
			if body, err = r.AppendBody(nil); err != nil {
				return bodies, err
			}
		}
		if int64(len(body)) != n {
			return bodies, errors.New("a body is not as long as announced")
		}
		bodies = append(bodies, body)
	}
}

func TestAStreamIsTakenApartIntoItsFrames(t *testing.T) {
	var stream []byte
	var want [][]byte
	for _, n := range []int{0, 1, 5, 8, 41, 42, 43, 500, 506, 507, 508, 2000, 3, 100_000, 0, 1} {
		body := bytes.Repeat([]byte{byte(n)}, n)
		want = append(want, body)
		stream = append(binary.LittleEndian.AppendUint32(stream, uint32(n)), body...)
	}
	for _, size := range []int{0, 64, 65, 512, 4096} {
		for name, in := range readers(stream) {
			got, err := takeFrames(NewFrameReader(in, make([]byte, size)))
			if !errors.Is(err, io.EOF) || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s, buffer of %d: %d frames, %v", name, size, len(got), err)
			}
		}
	}
}

func TestAStreamThatEndsInTheMiddleIsCut(t *testing.T) {
	stream := slices.Concat(mustFrame(t, &Request{Close: []float64{1}}), mustFrame(t, &Request{Close: make([]float64, 1000)}))
	first := 4 + 9 + 8
	for n := range len(stream) + 1 {
		for name, in := range readers(stream[:n]) {
			_, err := takeFrames(NewFrameReader(in, nil))
			want := io.ErrUnexpectedEOF
			if n == 0 || n == first || n == len(stream) {
				want = io.EOF
			}
			if !errors.Is(err, want) {
				t.Fatalf("%s: after %d bytes: %v", name, n, err)
			}
		}
	}
}

func TestTheFloatsOfASmallFrameAreUsedWhereTheyLie(t *testing.T) {
	frame := mustFrame(t, &Request{Op: OpEcho, Close: []float64{1, 2, 3}})
	r := NewFrameReader(bytes.NewReader(slices.Concat(frame, frame)), nil)
	for i := range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		body, ok := r.Whole()
		var req Request
		if err := Octet.Decode(body, &req); !ok || err != nil || !slices.Equal(req.Close, []float64{1, 2, 3}) {
			t.Fatal(ok, err, req.Close)
		}
		if _, aligned := view[float64](body[9:]); littleEndian && !aligned && i == 0 {
			t.Error("the first frame's floats are not aligned")
		}
	}
}

func TestALengthThatIsALieCostsNoMemory(t *testing.T) {
	stream := append([]byte{255, 255, 255, 255}, make([]byte, 100)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := NewFrameReader(bytes.NewReader(stream), nil)
	if n, err := r.Next(); n != math.MaxUint32 || err != nil {
		t.Error(n, err)
	}
	body, err := r.AppendBody(nil)
	runtime.ReadMemStats(&after)
	if len(body) != 100 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// FuzzFrames takes any stream apart, whatever pieces it comes in, and holds
// what comes out against a plain reading of it.
func FuzzFrames(f *testing.F) {
	f.Add(mustFrame(f, &Request{Close: []float64{1, 2}, Params: []kernel.Params{kernel.Expand(6)}}), uint16(64), byte(1))
	f.Add(slices.Repeat(mustFrame(f, &Request{Op: OpEcho, Close: []float64{3}}), 9), uint16(70), byte(7))
	f.Add([]byte{255, 255, 255, 255, 0, 1, 2}, uint16(0), byte(0))
	f.Add([]byte{0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, uint16(4096), byte(3))
	f.Fuzz(func(t *testing.T, stream []byte, buffer uint16, piece byte) {
		var want [][]byte
		rest, end := stream, io.EOF
		for len(rest) > 0 {
			if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
				end = io.ErrUnexpectedEOF
				break
			}
			n := 4 + int(binary.LittleEndian.Uint32(rest))
			want = append(want, rest[4:n])
			rest = rest[n:]
		}
		in := io.Reader(bytes.NewReader(stream))
		if piece > 0 {
			in = &pieces{in, int(piece)}
		}
		got, err := takeFrames(NewFrameReader(in, make([]byte, buffer%8192)))
		if !errors.Is(err, end) || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%d frames, %v; want %d, %v", len(got), err, len(want), end)
		}
		for _, body := range got {
			if !IsFrameBody(int64(len(body))) {
				continue
			}
			var req Request
			req.Reset(fuzzLimits)
			if Octet.Decode(body, &req) != nil {
				continue
			}
			again := mustFrame(t, &req)
			if !bytes.Equal(again[4:], body) {
				t.Fatalf("%x is written as %x", body, again[4:])
			}
			if reply := EchoReply(slices.Clone(body), len(req.Close)); !bytes.Equal(reply[4:], body[9:][:8*len(req.Close)]) {
				t.Fatalf("%x is echoed as %x", body, reply)
			}
		}
	})
}

// pieces reads no more than so many bytes at a time.
type pieces struct {
	in   io.Reader
	most int
}

func (p *pieces) Read(b []byte) (int, error) { return p.in.Read(b[:min(len(b), p.most)]) }
