package encoding

import (
	"encoding/json"
	"math"
	"strconv"

	"texttax/kernel"
)

// JSON is application/json.
//
//	request: {"close":[...], "params":[[6 windows],...], "lengths":[...], "dataset":"id", "fee":0.0009}
//	answer:  {"pnl":[...], "trades":[...], "open":[...]}
//
// Numbers are written as the shortest decimal that reads back to the same
// bits, and read to the nearest float64. Unknown and repeated keys are errors,
// and so is anything after the object.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Name() string      { return "json" }
func (jsonCodec) MediaType() string { return "application/json" }

func (jsonCodec) Decode(body []byte, req *Request) error {
	s := &jsonScanner{text: body}
	err := s.object(requestKeys, func(key int) error {
		switch key {
		case keyClose:
			return decodeJSONSeries(s, req)
		case keyParams:
			return decodeJSONParams(s, req)
		case keyLengths:
			return decodeJSONLengths(s, req)
		case keyDataset:
			return decodeJSONDataset(s, req)
		default:
			return decodeJSONFee(s, req)
		}
	})
	if err != nil {
		return err
	}
	return s.end()
}

func decodeJSONSeries(s *jsonScanner, req *Request) error {
	series, err := s.floats("close", req.series[:0], req.limits.Bars, func(series []float64) ([]float64, error) {
		i := len(series)
		if err := req.checkBars(i + 1); err != nil {
			return series, err
		}
		v, ok, err := s.float("close", i)
		if err != nil {
			return series, err
		}
		if !ok {
			kind, err := s.skip(0)
			if err != nil {
				return series, err
			}
			req.invalidPrice(i, "must be a number, not ", kind)
			v = math.NaN()
		}
		return append(series, v), nil
	})
	req.series = series
	if err != nil {
		return err
	}
	req.Close = nonNil(series)
	return nil
}

func decodeJSONParams(s *jsonScanner, req *Request) error {
	params := req.params[:0]
	err := s.array("params", func(combo int) error {
		if err := req.checkCombos("params", combo+1); err != nil {
			return err
		}
		var windows kernel.Params
		n := 0
		if s.peek() != '[' {
			kind, err := s.skip(0)
			if err != nil {
				return err
			}
			return invalidAt("params", combo, "must be an array of six windows, not %s", kind)
		}
		err := s.array("params", func(w int) error {
			if n++; n > len(windows) {
				_, err := s.skip(0)
				return err
			}
			v, err := decodeJSONWhole(s, paramsField(w), combo)
			windows[w] = v
			return err
		})
		if err != nil {
			return err
		}
		if n != len(windows) {
			return wrongWindowCount(combo, n)
		}
		params = append(params, windows)
		return nil
	})
	req.params = params
	if err != nil {
		return err
	}
	req.Params = nonNil(params)
	return nil
}

func decodeJSONLengths(s *jsonScanner, req *Request) error {
	lengths := req.lengths[:0]
	err := s.array("lengths", func(i int) error {
		if err := req.checkCombos("lengths", i+1); err != nil {
			return err
		}
		v, err := decodeJSONWhole(s, "lengths", i)
		lengths = append(lengths, v)
		return err
	})
	req.lengths = lengths
	if err != nil {
		return err
	}
	req.Lengths = nonNil(lengths)
	return nil
}

// decodeJSONWhole reads a whole number at an index of field.
func decodeJSONWhole(s *jsonScanner, field string, index int) (int64, error) {
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	if text == "" {
		kind, err := s.skip(0)
		if err != nil {
			return 0, err
		}
		return 0, invalidAt(field, index, "must be a whole number, not %s", kind)
	}
	return parseWhole(text, field, index)
}

func decodeJSONDataset(s *jsonScanner, req *Request) error {
	if s.peek() != '"' {
		return s.wrongType("dataset", "a string")
	}
	id, err := s.string()
	if err != nil {
		return err
	}
	return req.setDataset(id)
}

func decodeJSONFee(s *jsonScanner, req *Request) error {
	fee, ok, err := s.float("fee", -1)
	if err != nil {
		return err
	}
	if !ok {
		return s.wrongType("fee", "a number")
	}
	req.Fee, req.HasFee = fee, true
	return nil
}

func (jsonCodec) Append(dst []byte, req *Request) ([]byte, error) {
	start := len(dst)
	dst = append(dst, '{')
	separator := ""
	key := func(name string) {
		dst = append(dst, separator...)
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
		separator = ","
	}
	if req.Close != nil {
		key("close")
		var i int
		if dst, i = appendJSONFloats(dst, req.Close); i >= 0 {
			return dst[:start], notInJSON("close", i, req.Close[i])
		}
	}
	if req.Params != nil {
		key("params")
		dst = append(dst, '[')
		for i := range req.Params {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONIntegers(dst, req.Params[i][:])
		}
		dst = append(dst, ']')
	}
	if req.Lengths != nil {
		key("lengths")
		dst = appendJSONIntegers(dst, req.Lengths)
	}
	if req.Dataset != "" {
		text, err := json.Marshal(req.Dataset)
		if err != nil {
			return dst, &Error{Kind: Unspeakable, Field: "dataset", Index: -1, Detail: "can't be said in JSON"}
		}
		key("dataset")
		dst = append(dst, text...)
	}
	if req.HasFee {
		if math.IsNaN(req.Fee) || math.IsInf(req.Fee, 0) {
			return dst, notInJSON("fee", -1, req.Fee)
		}
		key("fee")
		dst = appendJSONFloat(dst, req.Fee)
	}
	return append(dst, '}'), nil
}

func (jsonCodec) AppendResults(dst []byte, res *kernel.Results) ([]byte, error) {
	start := len(dst)
	dst = append(dst, `{"pnl":`...)
	dst, i := appendJSONFloats(dst, res.PnL)
	if i >= 0 {
		return dst[:start], notInJSON("pnl", i, res.PnL[i])
	}
	dst = append(dst, `,"trades":`...)
	dst = appendJSONIntegers(dst, res.Trades)
	dst = append(dst, `,"open":`...)
	dst = appendJSONIntegers(dst, res.Open)
	return append(dst, '}'), nil
}

// unspeakable returns the index of the first float that JSON has no words
// for, or -1.
func unspeakable(floats []float64) int {
	for i, v := range floats {
		if v-v != 0 { // NaN and the infinities, and nothing else
			return i
		}
	}
	return -1
}

func notInJSON(field string, index int, v float64) *Error {
	return &Error{Kind: Unspeakable, Field: field, Index: index,
		Detail: strconv.FormatFloat(v, 'g', -1, 64) + " can't be said in JSON; ask for a binary format in Accept"}
}

func appendJSONIntegers[T int64 | int8](dst []byte, integers []T) []byte {
	dst = append(dst, '[')
	for i, v := range integers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(v), 10)
	}
	return append(dst, ']')
}

func (jsonCodec) DecodeResults(body []byte, res *kernel.Results) error {
	s := &jsonScanner{text: body}
	res.PnL, res.Trades, res.Open = res.PnL[:0], res.Trades[:0], res.Open[:0]
	err := s.object(resultKeys, func(key int) error {
		field := resultKeys[key]
		if key != keyPnL {
			return s.array(field, func(i int) error {
				v, err := decodeJSONWhole(s, field, i)
				if err == nil {
					err = appendResult(res, key, i, v)
				}
				return err
			})
		}
		var err error
		res.PnL, err = s.floats(field, res.PnL, 0, func(pnl []float64) ([]float64, error) {
			v, ok, err := s.float(field, len(pnl))
			if err == nil && !ok {
				err = s.wrongType(field, "an array of numbers")
			}
			return append(pnl, v), err
		})
		return err
	})
	if err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	return checkColumns(res)
}
