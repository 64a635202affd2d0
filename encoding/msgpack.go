package encoding

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"texttax/kernel"
)

// MessagePack is application/vnd.msgpack: the same maps as JSON. close may be
// an array of numbers or bin of little-endian float64, params an array of
// arrays or bin of little-endian int64.
var MessagePack Codec = msgpackCodec{}

// MessagePackBin is MessagePack whose numbers are written as bin: pnl as
// float64, trades as int64, open as int8. A client chooses it by the parameter
// numbers=bin of the media type.
var MessagePackBin Codec = msgpackCodec{bin: true}

type msgpackCodec struct{ bin bool }

func (msgpackCodec) Name() string      { return "msgpack" }
func (msgpackCodec) MediaType() string { return "application/vnd.msgpack" }

// msgpackReader reads the envelope by the library and the numbers itself. The
// body has been checked, so that lengths can be believed.
type msgpackReader struct {
	body    []byte
	in      *bytes.Reader
	library *msgpack.Decoder
}

// object reads a body that is one map and calls member for each key, which
// must be among known and not be given twice. member must consume the value.
func (r *msgpackReader) object(body []byte, known []string, member func(key int) error) error {
	if err := checkMsgpack(body); err != nil {
		return err
	}
	r.body, r.in = body, bytes.NewReader(body)
	if h, _ := readMsgpackHead(body); h.kind != msgpackMap {
		return invalidAt("", -1, "must be a map, not %s", h.kind)
	}
	r.library = msgpack.GetDecoder()
	defer msgpack.PutDecoder(r.library)
	r.library.Reset(r.in)
	n, err := r.library.DecodeMapLen()
	if err != nil {
		return malformed("MessagePack has a map that can't be read")
	}
	seen := uint32(0)
	for ; n > 0; n-- {
		if h := r.head(); h.kind != msgpackString {
			return malformed("MessagePack has a key that is %s; known are %q", h.kind, known)
		}
		name, err := r.library.DecodeString()
		if err != nil {
			return malformed("MessagePack has a key that can't be read")
		}
		key, err := knownKey(name, known, &seen)
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
	return nil
}

// rest returns the bytes that have not been read.
func (r *msgpackReader) rest() []byte { return r.body[len(r.body)-r.in.Len():] }

// head returns the head of the next value without consuming it.
func (r *msgpackReader) head() msgpackHead {
	h, _ := readMsgpackHead(r.rest())
	return h
}

// next consumes the head of the next value and returns it.
func (r *msgpackReader) next() msgpackHead {
	h := r.head()
	r.skip(h.size)
	return h
}

// bin consumes the payload of a bin whose head h has been consumed.
func (r *msgpackReader) bin(h msgpackHead) []byte {
	b := r.rest()[:h.bits]
	r.skip(len(b))
	return b
}

func (r *msgpackReader) skip(n int) {
	// Seeking within what has been checked can't fail.
	_, _ = r.in.Seek(int64(n), io.SeekCurrent)
}

func (msgpackCodec) Decode(body []byte, req *Request) error {
	r := new(msgpackReader)
	return r.object(body, requestKeys, func(key int) error {
		switch key {
		case keyClose:
			return r.series(req)
		case keyParams:
			return r.params(req)
		case keyLengths:
			return r.lengths(req)
		case keyDataset:
			return r.dataset(req)
		default:
			return r.fee(req)
		}
	})
}

func (r *msgpackReader) series(req *Request) error {
	h := r.next()
	switch h.kind {
	case msgpackBin:
		b := r.bin(h)
		if len(b)%8 != 0 {
			return malformedAt("close", -1, "bin of %d bytes is no whole number of float64", len(b))
		}
		if err := req.checkBars(len(b) / 8); err != nil {
			return err
		}
		req.Close, req.Packed = numbers(b, &req.series), true
		return nil
	case msgpackArray:
		if err := req.checkBars(int(h.bits)); err != nil {
			return err
		}
		if err := req.limits.take(int(h.bits), bytesPrice); err != nil {
			return err
		}
		req.Close = grow(&req.series, int(h.bits))
		rest := r.rest()
		used := decodeMsgpackFloats(req.Close, rest, func(i int, detail string) { req.invalidPrice(i, detail) })
		req.Close = nonNil(req.Close)
		r.skip(used)
		return nil
	}
	return invalidAt("close", -1, "must be an array of numbers, or bin of little-endian float64, not %s", h.kind)
}

// decodeMsgpackFloats fills dst with the elements that b begins with, and
// returns the number of bytes that they take. An element that is no float64
// becomes NaN and is reported to invalid.
func decodeMsgpackFloats(dst []float64, b []byte, invalid func(index int, detail string)) int {
	pos := 0
	for i := 0; i < len(dst); {
		if b[pos] == msgpackFloat64Tag {
			run := float64Run(b[pos:], uint64(len(dst)-i))
			copyBigEndian(dst[i:][:run], b[pos:])
			i += run
			pos += 9 * run
			continue
		}
		h, _ := readMsgpackHead(b[pos:])
		v, detail := h.float64()
		if dst[i] = v; detail != "" {
			invalid(i, detail)
		}
		i++
		pos += msgpackSize(b[pos:])
	}
	return pos
}

// copyBigEndian fills dst with the float64s that b begins with, each behind its
// tag.
func copyBigEndian(dst []float64, b []byte) {
	for ; len(dst) >= 8; dst, b = dst[8:], b[8*9:] {
		to, from := (*[8]float64)(dst), (*[8 * 9]byte)(b)
		to[0] = math.Float64frombits(binary.BigEndian.Uint64(from[1:]))
		to[1] = math.Float64frombits(binary.BigEndian.Uint64(from[10:]))
		to[2] = math.Float64frombits(binary.BigEndian.Uint64(from[19:]))
		to[3] = math.Float64frombits(binary.BigEndian.Uint64(from[28:]))
		to[4] = math.Float64frombits(binary.BigEndian.Uint64(from[37:]))
		to[5] = math.Float64frombits(binary.BigEndian.Uint64(from[46:]))
		to[6] = math.Float64frombits(binary.BigEndian.Uint64(from[55:]))
		to[7] = math.Float64frombits(binary.BigEndian.Uint64(from[64:]))
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.BigEndian.Uint64(b[9*i+1:]))
	}
}

// msgpackSize returns the bytes of the value that b begins with, which must
// have been checked.
func msgpackSize(b []byte) int {
	rest, _ := checkMsgpackValue(b, len(b), 0)
	return len(b) - len(rest)
}

func (r *msgpackReader) params(req *Request) error {
	h := r.next()
	switch h.kind {
	case msgpackBin:
		b := r.bin(h)
		if len(b)%bytesParams != 0 {
			return malformedAt("params", -1, "bin of %d bytes is no whole number of combos of six int64", len(b))
		}
		if err := req.checkCombos("params", len(b)/bytesParams); err != nil {
			return err
		}
		req.Params = paramsFrom(b, req)
		return nil
	case msgpackArray:
	default:
		return invalidAt("params", -1, "must be an array of arrays of six windows, or bin of little-endian int64, not %s", h.kind)
	}
	if err := req.checkCombos("params", int(h.bits)); err != nil {
		return err
	}
	params := grow(&req.params, int(h.bits))
	for combo := range params {
		switch row := r.next(); {
		case row.kind != msgpackArray:
			return invalidAt("params", combo, "must be an array of six windows, not %s", row.kind)
		case row.bits != uint64(len(params[combo])):
			return wrongWindowCount(combo, int(row.bits))
		}
		for w := range params[combo] {
			h := r.next()
			v, detail := h.whole()
			if detail != "" {
				return invalidAt(paramsField(w), combo, "%s", detail)
			}
			params[combo][w] = v
		}
	}
	req.Params = nonNil(params)
	return nil
}

func (r *msgpackReader) lengths(req *Request) error {
	h := r.next()
	if h.kind != msgpackArray {
		return invalidAt("lengths", -1, "must be an array of whole numbers, not %s", h.kind)
	}
	if err := req.checkCombos("lengths", int(h.bits)); err != nil {
		return err
	}
	lengths := grow(&req.lengths, int(h.bits))
	for i := range lengths {
		h := r.next()
		v, detail := h.whole()
		if detail != "" {
			return invalidAt("lengths", i, "%s", detail)
		}
		lengths[i] = v
	}
	req.Lengths = nonNil(lengths)
	return nil
}

func (r *msgpackReader) dataset(req *Request) error {
	if h := r.head(); h.kind != msgpackString {
		return invalidAt("dataset", -1, "must be a string, not %s", h.kind)
	}
	id, err := r.library.DecodeString()
	if err != nil {
		return malformedAt("dataset", -1, "can't be read")
	}
	return req.setDataset(id)
}

func (r *msgpackReader) fee(req *Request) error {
	h := r.next()
	fee, detail := h.float64()
	if detail != "" {
		return invalidAt("fee", -1, "%s", detail)
	}
	req.Fee, req.HasFee = fee, true
	return nil
}

// msgpackWriter writes the envelope by the library and the numbers itself.
type msgpackWriter struct {
	out     []byte
	library *msgpack.Encoder
}

// Write implements io.Writer for the library. It never fails, so that the
// errors of the library need no look.
func (w *msgpackWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// WriteByte spares the library a wrapper.
func (w *msgpackWriter) WriteByte(c byte) error {
	w.out = append(w.out, c)
	return nil
}

// writeMsgpack appends to dst what write says.
func writeMsgpack(dst []byte, write func(w *msgpackWriter)) []byte {
	w := &msgpackWriter{out: dst, library: msgpack.GetEncoder()}
	defer msgpack.PutEncoder(w.library)
	w.library.Reset(w)
	w.library.UseCompactInts(true)
	write(w)
	return w.out
}

func (w *msgpackWriter) key(name string) { _ = w.library.EncodeString(name) }

func (w *msgpackWriter) floats(floats []float64, bin bool) {
	if bin {
		_ = w.library.EncodeBytesLen(8 * len(floats))
		w.out = appendNumbers(w.out, floats)
		return
	}
	_ = w.library.EncodeArrayLen(len(floats))
	start := len(w.out)
	w.out = slices.Grow(w.out, 9*len(floats))[:start+9*len(floats)]
	to := w.out[start:]
	for ; len(floats) >= 8; floats, to = floats[8:], to[8*9:] {
		block := (*[8 * 9]byte)(to)
		for k, v := range (*[8]float64)(floats) {
			block[9*k] = msgpackFloat64Tag
			binary.BigEndian.PutUint64(block[9*k+1:], math.Float64bits(v))
		}
	}
	for k, v := range floats {
		to[9*k] = msgpackFloat64Tag
		binary.BigEndian.PutUint64(to[9*k+1:], math.Float64bits(v))
	}
}

func writeMsgpackIntegers[T int64 | int8](w *msgpackWriter, integers []T, bin bool) {
	if bin {
		_ = w.library.EncodeBytesLen(len(integers) * int(unsafe.Sizeof(T(0))))
		w.out = appendNumbers(w.out, integers)
		return
	}
	_ = w.library.EncodeArrayLen(len(integers))
	for _, v := range integers {
		_ = w.library.EncodeInt(int64(v))
	}
}

func (c msgpackCodec) Append(dst []byte, req *Request) ([]byte, error) {
	if len(req.Close) > math.MaxUint32/8 || len(req.Params) > math.MaxUint32/bytesParams {
		return dst, &Error{Kind: Unspeakable, Index: -1, Detail: "MessagePack counts in 32 bits"}
	}
	return writeMsgpack(dst, func(w *msgpackWriter) {
		given := []bool{req.Close != nil, req.Params != nil, req.Lengths != nil, req.Dataset != "", req.HasFee}
		n := 0
		for _, g := range given {
			if g {
				n++
			}
		}
		bin := c.bin || req.Packed
		_ = w.library.EncodeMapLen(n)
		if given[keyClose] {
			w.key("close")
			w.floats(req.Close, bin)
		}
		if given[keyParams] {
			w.key("params")
			w.params(req.Params, bin)
		}
		if given[keyLengths] {
			w.key("lengths")
			writeMsgpackIntegers(w, req.Lengths, false)
		}
		if given[keyDataset] {
			w.key("dataset")
			_ = w.library.EncodeString(req.Dataset)
		}
		if given[keyFee] {
			w.key("fee")
			_ = w.library.EncodeFloat64(req.Fee)
		}
	}), nil
}

func (w *msgpackWriter) params(params []kernel.Params, bin bool) {
	if bin {
		writeMsgpackIntegers(w, flat(params), true)
		return
	}
	_ = w.library.EncodeArrayLen(len(params))
	for i := range params {
		writeMsgpackIntegers(w, params[i][:], false)
	}
}

func (c msgpackCodec) AppendResults(dst []byte, res *kernel.Results) ([]byte, error) {
	return writeMsgpack(dst, func(w *msgpackWriter) {
		_ = w.library.EncodeMapLen(len(resultKeys))
		w.key("pnl")
		w.floats(res.PnL, c.bin)
		w.key("trades")
		writeMsgpackIntegers(w, res.Trades, c.bin)
		w.key("open")
		writeMsgpackIntegers(w, res.Open, c.bin)
	}), nil
}

func (msgpackCodec) DecodeResults(body []byte, res *kernel.Results) error {
	r := new(msgpackReader)
	res.PnL, res.Trades, res.Open = res.PnL[:0], res.Trades[:0], res.Open[:0]
	err := r.object(body, resultKeys, func(key int) error {
		h := r.next()
		switch {
		case h.kind == msgpackBin:
			return decodeBinColumn(res, key, r.bin(h))
		case h.kind != msgpackArray:
			return invalidAt(resultKeys[key], -1, "must be an array or bin, not %s", h.kind)
		case key == keyPnL:
			var first *Error
			res.PnL = grow(&res.PnL, int(h.bits))
			r.skip(decodeMsgpackFloats(res.PnL, r.rest(), func(i int, detail string) {
				if first == nil {
					first = invalidAt("pnl", i, "%s", detail)
				}
			}))
			if first != nil {
				return first
			}
			return nil
		}
		for i := range int(h.bits) {
			h := r.next()
			v, detail := h.whole()
			if detail != "" {
				return invalidAt(resultKeys[key], i, "%s", detail)
			}
			if err := appendResult(res, key, i, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return checkColumns(res)
}

// decodeBinColumn copies a column of an answer out of little-endian bytes.
func decodeBinColumn(res *kernel.Results, key int, b []byte) error {
	if key != keyOpen && len(b)%8 != 0 {
		return malformedAt(resultKeys[key], -1, "bin of %d bytes is no whole number of elements", len(b))
	}
	switch key {
	case keyPnL:
		copyNumbers(grow(&res.PnL, len(b)/8), b)
	case keyTrades:
		copyNumbers(grow(&res.Trades, len(b)/8), b)
	default:
		copyNumbers(grow(&res.Open, len(b)), b)
		return checkSides(res.Open)
	}
	return nil
}
