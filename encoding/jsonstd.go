package encoding

import (
	"bytes"
	"encoding/json"
	"slices"

	"texttax/kernel"
)

// JSONStd is JSON by way of the standard library's encoding/json: the same
// bodies, at the price that a usual Go service pays. A client chooses it by
// the media type application/json; codec=std.
//
// encoding/json reads null as 0, and refuses 10.0 where a whole number is
// due. Wherever it says no, or could have said yes in error, the body is read
// again by JSON, so that both accept and refuse the same bodies in the same
// words.
var JSONStd Codec = jsonStd{}

type jsonStd struct{ jsonCodec }

func (jsonStd) Name() string { return "json-std" }

// stdRequest is a request as it is written. What is not given is left out.
type stdRequest struct {
	Close   []float64       `json:"close,omitzero"`
	Params  []kernel.Params `json:"params,omitzero"`
	Lengths []int64         `json:"lengths,omitzero"`
	Dataset string          `json:"dataset,omitzero"`
	Fee     *float64        `json:"fee,omitzero"`
}

type stdResults struct {
	PnL    []float64 `json:"pnl"`
	Trades []int64   `json:"trades"`
	Open   []int8    `json:"open"`
}

func (c jsonStd) Decode(body []byte, req *Request) error {
	if decodeStd(body, req) {
		return nil
	}
	limits, series := req.limits, req.series
	req.Reset(limits)
	req.series = series[:0] // or there would be two of millions
	return c.jsonCodec.Decode(body, req)
}

// maxStdToken is the longest string or number, in bytes, that encoding/json is
// given: it copies a token up to twelve times its length.
const maxStdToken = 4 << 10

// outlineStd returns which keys body has, as bits, and how many elements close
// has if they are numbers. It reports false if the body is one that
// encoding/json would read in error, or at the price of more memory than its
// numbers take: if a key is unknown or repeated, or there are more values than
// the limits allow, more strings or objects than a request has, or long ones, or
// anything escaped, or true or false, of which each is an error that it notes. It
// looks at few bytes one by one, so as not to add to what encoding/json costs.
func outlineStd(body []byte, limits Limits) (keys uint32, closes int, ok bool) {
	if start := trimSpace(body); len(start) == 0 || start[0] != '{' {
		return keys, closes, false // encoding/json takes null for one
	}
	values := 0
	for rest := body; ; {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			break
		}
		rest = rest[start+1:]
		end := bytes.IndexByte(rest[:min(len(rest), maxStdToken)], '"')
		if end < 0 {
			return keys, closes, false
		}
		text := rest[:end]
		rest = rest[end+1:]
		if bytes.IndexByte(text, '\\') >= 0 {
			return keys, closes, false
		}
		after := trimSpace(rest)
		if len(after) == 0 || after[0] != ':' {
			if values++; values > 1 { // one may be that of dataset
				return keys, closes, false
			}
			continue
		}
		key, err := knownKey(string(text), requestKeys, &keys)
		if err != nil {
			return keys, closes, false
		}
		if key == keyClose {
			closes = 1 + bytes.Count(after[:max(0, bytes.IndexByte(after, ']'))], []byte{','})
		}
	}
	others := bytes.Count(body, []byte{','}) - max(0, closes-1)
	if limits.Bars > 0 && closes > limits.Bars ||
		limits.Combos > 0 && (others > 7*limits.Combos+len(requestKeys) || bytes.Count(body, []byte{'['}) > limits.Combos+len(requestKeys)) {
		return keys, closes, false
	}
	return keys, closes, bytes.Count(body, []byte{'{'}) == 1 && !bytes.Contains(body, []byte("true")) && !bytes.Contains(body, []byte("false")) && !hasLongNumber(body)
}

func trimSpace(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }

// hasLongNumber tells whether a number may be longer than maxStdToken.
func hasLongNumber(body []byte) bool {
	// Of two halves of a long number, one at least is a whole block.
	for block := range slices.Chunk(body, maxStdToken/2) {
		if len(block) == maxStdToken/2 && bytes.IndexByte(block, ',') < 0 {
			return true
		}
	}
	return false
}

// decodeStd reports whether encoding/json could read body, and nothing in
// what it read is doubtful.
func decodeStd(body []byte, req *Request) bool {
	keys, closes, ok := outlineStd(body, req.limits)
	if !ok {
		return false
	}
	var in struct {
		Close   []float64
		Params  [][]int64 // of any length, so that a wrong one is seen
		Lengths []int64
		Dataset string
		Fee     *float64
	}
	// A series of millions that grows as it is read would take five times its
	// memory.
	if closes > maxRetained {
		in.Close = grow(&req.series, closes)[:0]
	}
	if json.Unmarshal(body, &in) != nil {
		return false
	}
	given := func(key int) bool { return keys&(1<<key) != 0 }
	switch {
	case given(keyClose) && doubtful(in.Close),
		given(keyParams) && in.Params == nil,
		given(keyLengths) && doubtful(in.Lengths),
		given(keyDataset) && doubtfulText(in.Dataset),
		given(keyFee) && in.Fee == nil,
		req.checkBars(len(in.Close)) != nil,
		req.checkCombos("params", len(in.Params)) != nil,
		req.checkCombos("lengths", len(in.Lengths)) != nil:
		return false
	}
	params := req.params[:0]
	for _, windows := range in.Params {
		if len(windows) != len(kernel.Params{}) || doubtful(windows) {
			return false
		}
		params = append(params, kernel.Params(windows))
	}
	req.params = params
	if given(keyParams) {
		req.Params = nonNil(params)
	}
	if given(keyClose) {
		req.Close = in.Close
	}
	req.Lengths, req.Dataset = in.Lengths, in.Dataset
	if in.Fee != nil {
		req.Fee, req.HasFee = *in.Fee, true
	}
	return true
}

// doubtful tells whether a zero among the values, or no slice at all, may
// have been a null.
func doubtful[T float64 | int64](values []T) bool {
	for _, v := range values {
		if v == 0 {
			return true
		}
	}
	return values == nil
}

// doubtfulText tells whether a string may have been a null, or may have had
// bytes that are not UTF-8, which encoding/json replaces by U+FFFD.
func doubtfulText(s string) bool {
	return s == "" || bytes.ContainsRune([]byte(s), '\uFFFD')
}

func (c jsonStd) Append(dst []byte, req *Request) ([]byte, error) {
	if i := unspeakable(req.Close); i >= 0 {
		return dst, notInJSON("close", i, req.Close[i])
	}
	// Negative zero would lose its sign in Python.
	if slices.ContainsFunc(req.Close, isNegativeZero) {
		return c.jsonCodec.Append(dst, req)
	}
	out := stdRequest{Close: req.Close, Params: req.Params, Lengths: req.Lengths, Dataset: req.Dataset}
	if req.HasFee {
		out.Fee = &req.Fee
	}
	return appendStd(dst, &out)
}

func (c jsonStd) AppendResults(dst []byte, res *kernel.Results) ([]byte, error) {
	if i := unspeakable(res.PnL); i >= 0 {
		return dst, notInJSON("pnl", i, res.PnL[i])
	}
	if slices.ContainsFunc(res.PnL, isNegativeZero) {
		return c.jsonCodec.AppendResults(dst, res)
	}
	return appendStd(dst, &stdResults{nonNil(res.PnL), nonNil(res.Trades), nonNil(res.Open)})
}

func appendStd(dst []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return dst, &Error{Kind: Unspeakable, Index: -1, Detail: "can't be said in JSON"}
	}
	return append(dst, text...), nil
}

func (c jsonStd) DecodeResults(body []byte, res *kernel.Results) error {
	var in stdResults
	if err := json.Unmarshal(body, &in); err != nil || !plainResults(body, &in) {
		return c.jsonCodec.DecodeResults(body, res)
	}
	*res = kernel.Results{PnL: in.PnL, Trades: in.Trades, Open: in.Open}
	return checkColumns(res)
}

// plainResults reports whether encoding/json can be believed: each column is
// there once, under its own name, with no null in it and no side that is none.
func plainResults(body []byte, in *stdResults) bool {
	if in.PnL == nil || in.Trades == nil || in.Open == nil || bytes.Count(body, []byte{'"'}) != 2*len(resultKeys) || bytes.Contains(body, []byte("null")) {
		return false
	}
	for _, key := range resultKeys {
		if !bytes.Contains(body, []byte(`"`+key+`"`)) {
			return false
		}
	}
	return !slices.ContainsFunc(in.Open, func(side int8) bool { return side < -1 || side > 1 })
}
