// Package encoding carries sweeps across the boundary: it turns request bodies
// into series and combos, and results into answers, in four body formats that
// all say the same.
//
// A Codec is one format. Its name is the value of the format label in the
// metrics; ForContentType and ForAccept choose one as RFC 9110 says. Decoders
// believe no length that they read: they check it against the bytes that are
// there, and against the Limits, before they allocate.
package encoding

import (
	"fmt"
	"math"
	"strings"

	"texttax/kernel"
)

// A Codec reads and writes the bodies of /sweep and /echo in one format.
// Codecs have no state and may be used by many goroutines.
type Codec interface {
	// Name is the format's name in metrics and messages: json, json-std,
	// msgpack, arrow or octet.
	Name() string
	// MediaType is the media type of the bodies that the codec writes.
	MediaType() string

	// Decode reads a request body into req, which must be fresh or Reset. The
	// slices of req may share memory with body: body must stay unchanged for
	// as long as req is in use. A failure is an *Error.
	Decode(body []byte, req *Request) error
	// Append appends req as a request body to dst. With nothing in it but
	// Close it is the body of an /echo request and of its answer alike. A
	// failure is an *Error, if the format can't say what is in req.
	Append(dst []byte, req *Request) ([]byte, error)

	// AppendResults appends the answer of /sweep to dst. A failure is an
	// *Error, if the format can't say what is in res.
	AppendResults(dst []byte, res *kernel.Results) ([]byte, error)
	// DecodeResults reads an answer of /sweep into res. What the format does
	// not carry is left nil: octet has no Open.
	DecodeResults(body []byte, res *kernel.Results) error
}

// Op says what a request asks for. Only octet frames carry it in the body.
type Op uint8

// The operations. Their wire opcodes are one less.
const (
	OpUnset Op = iota // the body doesn't say
	OpSweep           // opcode 0
	OpEcho            // opcode 1
)

// Request is what a body asks for. Its parts are nil or unset where the body
// does not give them, which is not the same as giving them empty.
type Request struct {
	Close   []float64       // series of closes, oldest first
	Params  []kernel.Params // combos, window by window
	Lengths []int64         // combos, each as one length for kernel.Expand
	Dataset string          // id of a preloaded series; "" is unset
	Fee     float64         // round-trip fee as a fraction, if HasFee
	HasFee  bool
	Op      Op // of an octet frame

	// Packed says that Close came as one block of little-endian bytes where
	// the format can also carry single numbers, or is to be written so: the
	// bin type of MessagePack.
	Packed bool

	// Invalid is the first element of Close that is well formed but no price
	// that the series can hold: a null, a string, an integer that float64
	// can't represent. Decoders store NaN in its place and go on, so that the
	// first fault of a series is found in the same way in every format.
	Invalid *Error

	limits  Limits
	series  []float64
	params  []kernel.Params
	lengths []int64
}

// Limits bound what a request may hold, and take. Zero means no limit.
type Limits struct {
	Bars   int // elements of Close
	Combos int // elements of Params, and of Lengths
	// Take, if not nil, is asked before memory is taken of more than eight times
	// the bytes of the body, or of the text of lengths, that were seen so far. Its
	// error ends the decode.
	Take func(bytes int64) error
}

// take asks for memory of n elements of size bytes.
func (l *Limits) take(n, size int) error {
	if l.Take == nil || n == 0 {
		return nil
	}
	return l.Take(int64(n) * int64(size))
}

// maxRetained is the largest scratch, in elements, that a Request keeps over
// Reset: one huge request must not hold its memory for ever.
const maxRetained = 1 << 20

// Reset makes req empty for another Decode under the limits, and keeps its
// memory where that is of moderate size.
func (req *Request) Reset(limits Limits) {
	*req = Request{
		limits:  limits,
		series:  retain(req.series),
		params:  retain(req.params),
		lengths: retain(req.lengths),
	}
}

func retain[T any](s []T) []T {
	if cap(s) > maxRetained {
		return nil
	}
	return s[:0]
}

// grow returns the scratch behind *s with length n, its contents undefined.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}

// checkBars tells whether n elements of Close are within the limit.
func (req *Request) checkBars(n int) error {
	if req.limits.Bars > 0 && n > req.limits.Bars {
		return overLimit("close", "bars", n, req.limits.Bars)
	}
	return nil
}

// checkCombos tells whether n elements of field, params or lengths, are
// within the limit.
func (req *Request) checkCombos(field string, n int) error {
	if req.limits.Combos > 0 && n > req.limits.Combos {
		return overLimit(field, "combos", n, req.limits.Combos)
	}
	return nil
}

// invalidPrice notes the first invalid element of Close. The parts of the
// detail are joined only then: there may be millions that come after it.
func (req *Request) invalidPrice(index int, detail ...string) {
	if req.Invalid == nil {
		req.Invalid = &Error{Kind: Invalid, Field: "close", Index: index, Detail: strings.Join(detail, "")}
	}
}

// CheckPrices refuses the first element of Close that is no price: a finite
// number above 0. The failure is an *Error.
func (req *Request) CheckPrices() error {
	for i, v := range req.Close {
		if v > 0 && v <= math.MaxFloat64 {
			continue
		}
		if req.Invalid != nil && req.Invalid.Index == i {
			return req.Invalid
		}
		return invalidAt("close", i, "a price must be a finite number above 0, not %v", v)
	}
	return nil
}

// CheckFee refuses what is no fraction of a position. The failure is an
// *Error.
func CheckFee(fee float64) error {
	// Beyond 1 somebody has sent percent, or basis points.
	if math.IsNaN(fee) || math.Abs(fee) >= 1 {
		return invalidAt("fee", -1, "must be a fraction of the position, such as %v, not %v", kernel.DefaultFee, fee)
	}
	return nil
}

// Kind says who is to blame for a body that can't be used, and how.
type Kind uint8

// The kinds of errors.
const (
	Malformed   Kind = iota // the bytes are not what the format's grammar says
	Invalid                 // well formed, but not a request that can be served
	OverLimit               // more bars or combos than the limits allow
	Unsupported             // another format than the one that was declared
	Unspeakable             // an answer that its format has no words for: NaN in JSON
)

// Error says what is wrong with a body. Its text is made for the client: it
// holds nothing internal.
type Error struct {
	Kind   Kind
	Field  string // the field at fault, such as close or params.hma_full; "" if none
	Index  int    // the element of the field at fault; -1 if none
	Detail string // what is wrong, and what would be right
}

func (e *Error) Error() string {
	switch {
	case e.Field == "":
		return e.Detail
	case e.Index < 0:
		return e.Field + ": " + e.Detail
	}
	return fmt.Sprintf("%s[%d]: %s", e.Field, e.Index, e.Detail)
}

func malformed(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Index: -1, Detail: fmt.Sprintf(format, args...)}
}

func malformedAt(field string, index int, format string, args ...any) *Error {
	return &Error{Kind: Malformed, Field: field, Index: index, Detail: fmt.Sprintf(format, args...)}
}

func invalidAt(field string, index int, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Field: field, Index: index, Detail: fmt.Sprintf(format, args...)}
}

func overLimit(field, what string, got, limit int) *Error {
	return &Error{Kind: OverLimit, Field: field, Index: -1,
		Detail: fmt.Sprintf("%d %s are over the limit of %d", got, what, limit)}
}

// paramsField names a window of a combo in errors.
func paramsField(window int) string { return "params." + kernel.WindowNames[window] }
