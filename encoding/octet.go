package encoding

import (
	"encoding/binary"
	"math"
	"unsafe"

	"texttax/kernel"
)

// Octet is application/octet-stream: the published frame's body, or bare
// little-endian float64 closes.
//
//	frame:  [u8 opcode][u32 n_bars][u32 n_combos][n_bars x f64][n_combos x 6 x i64]
//	answer: [n_combos x f64 pnl][n_combos x i64 trades]
//
// Opcode 0 is sweep, 1 is echo. Everything is little-endian and of exact
// length. A frame's length is 8k+1 and that of bare closes 8k, so that the
// length alone tells which it is.
var Octet Codec = octet{}

type octet struct{}

const (
	frameHeader  = 1 + 4 + 4
	bytesPrice   = 8
	bytesParams  = 6 * 8
	bytesResults = 8 + 8
)

// BodyOffset returns how many bytes to leave free before a body of the given
// length, in memory that is 8-aligned, so that the numbers within are aligned
// and Decode need not copy them.
func BodyOffset(codec Codec, length int64) int {
	switch codec {
	case Octet:
		if length%8 == frameHeader%8 {
			return 8 - frameHeader%8
		}
	case MessagePack, MessagePackBin:
		// A map whose first key is close, and a bin with a length of 32 bits.
		return 8 - (1+1+len("close")+5)%8
	}
	return 0
}

func (octet) Name() string      { return "octet" }
func (octet) MediaType() string { return "application/octet-stream" }

func (octet) Decode(body []byte, req *Request) error {
	switch len(body) % 8 {
	case 0:
		if err := req.checkBars(len(body) / bytesPrice); err != nil {
			return err
		}
		req.Close = numbers(body, &req.series)
		return nil
	case frameHeader % 8:
		return decodeFrame(body, req)
	}
	return malformed("%d bytes are neither bare little-endian float64 closes (a multiple of 8) nor a frame (a multiple of 8, plus 1)", len(body))
}

func decodeFrame(body []byte, req *Request) error {
	if len(body) < frameHeader {
		return malformed("a frame has a header of %d bytes: opcode, n_bars, n_combos; this body has %d", frameHeader, len(body))
	}
	if body[0] > 1 {
		return malformedAt("opcode", -1, "must be 0 (sweep) or 1 (echo), not %d", body[0])
	}
	// Two counts below 2^32 can't overflow the sum.
	bars := int64(binary.LittleEndian.Uint32(body[1:]))
	combos := int64(binary.LittleEndian.Uint32(body[5:]))
	if need := frameHeader + bars*bytesPrice + combos*bytesParams; int64(len(body)) != need {
		return malformed("a frame of %d bars and %d combos has %d bytes, this body has %d", bars, combos, need, len(body))
	}
	if err := req.checkBars(int(bars)); err != nil {
		return err
	}
	if err := req.checkCombos("params", int(combos)); err != nil {
		return err
	}
	req.Op = Op(body[0] + 1)
	series := body[frameHeader:][:bars*bytesPrice]
	if bars > 0 {
		req.Close = numbers(series, &req.series)
	}
	if combos > 0 {
		req.Params = paramsFrom(body[frameHeader+len(series):], req)
	}
	return nil
}

// paramsFrom returns the little-endian combos in b, whose length must be a
// multiple of a combo's, in place where possible.
func paramsFrom(b []byte, req *Request) []kernel.Params {
	if len(b) == 0 {
		return []kernel.Params{}
	}
	if windows, ok := view[int64](b); ok {
		return unsafe.Slice((*kernel.Params)(unsafe.Pointer(unsafe.SliceData(windows))), len(windows)/6)
	}
	params := grow(&req.params, len(b)/bytesParams)
	copyNumbers(flat(params), b)
	return params
}

// flat returns the windows of the combos, one after the other, in the same
// memory.
func flat(params []kernel.Params) []int64 {
	if len(params) == 0 {
		return nil
	}
	return unsafe.Slice(&params[0][0], len(params)*len(params[0]))
}

func (octet) Append(dst []byte, req *Request) ([]byte, error) {
	switch {
	case len(req.Lengths) > 0:
		return dst, inQuery("lengths")
	case req.Dataset != "":
		return dst, inQuery("dataset")
	case req.HasFee:
		return dst, inQuery("fee")
	}
	if req.Op == OpUnset && len(req.Params) == 0 {
		return appendNumbers(dst, req.Close), nil
	}
	if len(req.Close) > math.MaxUint32 || len(req.Params) > math.MaxUint32 {
		return dst, &Error{Kind: Unspeakable, Index: -1, Detail: "a frame counts its bars and combos in 32 bits"}
	}
	dst = AppendFrameHeader(dst, req.Op, len(req.Close), len(req.Params))
	dst = appendNumbers(dst, req.Close)
	return appendNumbers(dst, flat(req.Params)), nil
}

// AppendFrameHeader appends what a frame's body has before its numbers: the
// opcode, of a sweep unless op says echo, and the counts, which are below 2^32.
func AppendFrameHeader(dst []byte, op Op, bars, combos int) []byte {
	opcode := byte(0)
	if op == OpEcho {
		opcode = 1
	}
	dst = append(dst, opcode)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(bars))
	return binary.LittleEndian.AppendUint32(dst, uint32(combos))
}

// inQuery is the error for a part of a request that a format has no place for.
func inQuery(field string) *Error {
	return &Error{Kind: Unspeakable, Field: field, Index: -1, Detail: "this format has no place for it: put it into the query"}
}

func (octet) AppendResults(dst []byte, res *kernel.Results) ([]byte, error) {
	dst = appendNumbers(dst, res.PnL)
	return appendNumbers(dst, res.Trades), nil
}

func (octet) DecodeResults(body []byte, res *kernel.Results) error {
	if len(body)%bytesResults != 0 {
		return malformed("an answer has %d bytes a combo, this one has %d in all", bytesResults, len(body))
	}
	n := len(body) / bytesResults
	res.Resize(n)
	copyNumbers(res.PnL, body[:n*8])
	copyNumbers(res.Trades, body[n*8:])
	res.Open = nil
	return nil
}
