// Package sonicbench compares the JSON codec with github.com/bytedance/sonic,
// the usual choice where encoding/json is too slow. It is a module of its own,
// so that the service does not depend on sonic.
package sonicbench

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"

	"texttax/encoding"
	"texttax/kernel/gbm42"
)

// body is what an /echo request says.
type body struct {
	Close []float64 `json:"close"`
}

func sameBits(a, b []float64) bool {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// BenchmarkJSONFloats reads and writes an /echo request of the demo series:
// by the service's codec, by sonic and by encoding/json. All read into a slice
// that is large enough, and the codec and sonic write into such a buffer too.
func BenchmarkJSONFloats(b *testing.B) {
	if err := sonic.Pretouch(reflect.TypeFor[body]()); err != nil {
		b.Fatal(err)
	}
	series := gbm42.Close()
	text, err := encoding.JSON.Append(nil, &encoding.Request{Close: series})
	if err != nil {
		b.Fatal(err)
	}
	check := func(b *testing.B, got []byte, err error) {
		if err != nil || string(got) != string(text) {
			b.Fatalf("%d bytes, want %d; %v", len(got), len(text), err)
		}
	}
	var out []byte
	request := new(encoding.Request)
	into := body{Close: make([]float64, 0, len(series))}
	for _, bench := range []struct {
		name   string
		encode func() ([]byte, error)
		decode func() ([]float64, error)
	}{
		{
			"ours",
			func() ([]byte, error) {
				var err error
				out, err = encoding.JSON.Append(out[:0], &encoding.Request{Close: series})
				return out, err
			},
			func() ([]float64, error) {
				request.Reset(encoding.Limits{})
				err := encoding.JSON.Decode(text, request)
				return request.Close, err
			},
		},
		{
			"sonic",
			func() ([]byte, error) {
				out = out[:0]
				err := encoder.EncodeInto(&out, body{series}, 0)
				return out, err
			},
			func() ([]float64, error) {
				into.Close = into.Close[:0]
				err := sonic.ConfigDefault.Unmarshal(text, &into)
				return into.Close, err
			},
		},
		{
			"std",
			func() ([]byte, error) { return json.Marshal(body{series}) },
			func() ([]float64, error) {
				into.Close = into.Close[:0]
				err := json.Unmarshal(text, &into)
				return into.Close, err
			},
		},
	} {
		b.Run(bench.name+"/encode", func(b *testing.B) {
			got, err := bench.encode()
			check(b, got, err)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				bench.encode()
			}
		})
		b.Run(bench.name+"/decode", func(b *testing.B) {
			got, err := bench.decode()
			if err != nil || !sameBits(got, series) {
				b.Fatal("the series has changed", err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				bench.decode()
			}
		})
	}
}
