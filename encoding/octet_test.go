package encoding

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"texttax/kernel"
)

// frame writes a frame field by field, with counts that may lie.
func frame(opcode byte, bars, combos uint32, numbers ...uint64) []byte {
	b := []byte{opcode}
	b = binary.LittleEndian.AppendUint32(b, bars)
	b = binary.LittleEndian.AppendUint32(b, combos)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func TestAnOctetFrameIsThePublishedOne(t *testing.T) {
	body := frame(0, 2, 1, math.Float64bits(100), math.Float64bits(101.5), 3, 6, 2, 1, 2, 3)
	want := &Request{Op: OpSweep, Close: []float64{100, 101.5}, Params: []kernel.Params{{3, 6, 2, 1, 2, 3}}}
	got := mustDecode(t, Octet, body)
	if !sameRequest(got, want) || got.Op != OpSweep {
		t.Errorf("%+v", got)
	}
	if again := mustAppend(t, Octet, want); !bytes.Equal(again, body) {
		t.Errorf("%x is written as %x", body, again)
	}
	echo := frame(1, 1, 0, math.Float64bits(7))
	if got := mustDecode(t, Octet, echo); got.Op != OpEcho || got.Close[0] != 7 || got.Params != nil {
		t.Errorf("%+v", got)
	}
	if again := mustAppend(t, Octet, &Request{Op: OpEcho, Close: []float64{7}}); !bytes.Equal(again, echo) {
		t.Errorf("%x is written as %x", echo, again)
	}
}

func TestOctetResultsAreColumns(t *testing.T) {
	got, err := Octet.AppendResults(nil, &kernel.Results{PnL: []float64{1, -2}, Trades: []int64{3, 4}, Open: []int8{1, 0}})
	var want []byte
	for _, n := range []uint64{math.Float64bits(1), math.Float64bits(-2), 3, 4} {
		want = binary.LittleEndian.AppendUint64(want, n)
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v; want %x", got, err, want)
	}
}

func TestBareOctetsAreCloses(t *testing.T) {
	// Big-endian doubles are no floats that anybody meant, but they come back
	// as they came.
	body := []byte{0x40, 0x59, 0x20, 0, 0, 0, 0, 0, 0xff, 0xf8, 0, 0, 0, 0, 0, 1}
	req := mustDecode(t, Octet, body)
	if req.Op != OpUnset || len(req.Close) != 2 {
		t.Fatalf("%+v", req)
	}
	if again := mustAppend(t, Octet, &Request{Close: req.Close}); !bytes.Equal(again, body) {
		t.Errorf("%x comes back as %x", body, again)
	}
	if req := mustDecode(t, Octet, nil); req.Close == nil || len(req.Close) != 0 {
		t.Errorf("no octets at all are not an empty series but %+v", req)
	}
}

func TestOctetRefuses(t *testing.T) {
	one := math.Float64bits(1)
	for _, test := range []struct {
		name  string
		body  []byte
		kind  Kind
		field string
	}{
		{"half a float at the end", make([]byte, 12), Malformed, ""},
		{"a byte too few", make([]byte, 15), Malformed, ""},
		{"one byte", make([]byte, 1), Malformed, ""},
		{"an unknown opcode", frame(2, 1, 0, one), Malformed, "opcode"},
		{"more bars than there are", frame(0, 2, 0, one), Malformed, ""},
		{"fewer bars than there are", frame(0, 1, 0, one, one), Malformed, ""},
		{"bars that would overflow", frame(0, math.MaxUint32, math.MaxUint32, one), Malformed, ""},
		{"combos in the place of bars", frame(0, 0, 1, one), Malformed, ""},
		{"more combos than there are", frame(0, 1, 2, one, 1, 2, 3, 4, 5, 6), Malformed, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, Octet.Decode(test.body, new(Request)), test.kind, test.field, -1)
		})
	}
}

func TestNumbersAreReadInPlaceWhereBodyOffsetPutsThem(t *testing.T) {
	memory := unsafe.Slice((*byte)(unsafe.Pointer(new([64]uint64))), 512)
	for name, tc := range map[string]struct {
		codec Codec
		body  []byte
	}{
		"frame":       {Octet, frame(0, 2, 1, 1, 2, 3, 6, 2, 1, 2, 3)},
		"bare":        {Octet, make([]byte, 24)},
		"msgpack bin": {MessagePack, append([]byte("\x81\xa5close\xc6\x00\x00\x00\x18"), make([]byte, 24)...)},
	} {
		at := memory[BodyOffset(tc.codec, int64(len(tc.body))):][:len(tc.body)]
		copy(at, tc.body)
		req := new(Request)
		req.Reset(Limits{})
		if err := tc.codec.Decode(at, req); err != nil {
			t.Fatal(err)
		}
		req.Close[0] = 42
		if bytes.Equal(at, tc.body) {
			t.Errorf("%s: the closes are a copy", name)
		}
	}
}

func TestOctetsAreReadWithoutAnAllocation(t *testing.T) {
	memory := unsafe.Slice((*byte)(unsafe.Pointer(new([64]uint64))), 512)
	body := frame(0, 2, 1, 1, 2, 3, 6, 2, 1, 2, 3)
	at := memory[BodyOffset(Octet, int64(len(body))):][:copy(memory[BodyOffset(Octet, int64(len(body))):], body)]
	req := new(Request)
	if n := testing.AllocsPerRun(10, func() {
		req.Reset(Limits{})
		if err := Octet.Decode(at, req); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOctetsAreReadAtEveryAlignment(t *testing.T) {
	body := frame(0, 2, 1, math.Float64bits(1), math.Float64bits(2), 3, 6, 2, 1, 2, 3)
	for shift := range 8 {
		shifted := append(make([]byte, shift, 128), body...)[shift:]
		req := mustDecode(t, Octet, shifted)
		if req.Close[1] != 2 || req.Params[0] != (kernel.Params{3, 6, 2, 1, 2, 3}) {
			t.Errorf("shifted by %d: %+v", shift, req)
		}
	}
}

func FuzzOctetDecode(f *testing.F) {
	f.Add(frame(0, 1, 1, math.Float64bits(1), 1, 2, 3, 4, 5, 6))
	f.Add(frame(1, 1, 0, math.Float64bits(1)))
	f.Add(frame(0, math.MaxUint32, math.MaxUint32))
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := fuzzDecode(t, Octet, body)
		if err != nil {
			return
		}
		if again := fuzzRewrite(t, Octet, req); !bytes.Equal(again, body) {
			t.Fatalf("%x is written again as %x", body, again)
		}
	})
}

func FuzzOctetDecodeResults(f *testing.F) {
	f.Add(make([]byte, 32))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\xf0\x3f\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Add(make([]byte, 24))
	f.Fuzz(func(t *testing.T, body []byte) {
		res, err := fuzzResults(t, Octet, body)
		if err != nil {
			return
		}
		if again, err := Octet.AppendResults(nil, res); err != nil || !bytes.Equal(again, body) {
			t.Fatalf("%x is written again as %x, %v", body, again, err)
		}
	})
}
