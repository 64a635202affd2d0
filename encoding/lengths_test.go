package encoding

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

func TestLengthsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string][]int64{
		"6":                       {6},
		"6,8,10":                  {6, 8, 10},
		"10,6,6":                  {10, 6, 6},
		"6:10:3":                  {6, 8, 10},
		"6:200:1":                 {6},
		"6:6:3":                   {6, 6, 6},
		"2:5:3":                   {2, 3, 5}, // 3.5 rounds down
		"6:10:3,50,2:3:2":         {6, 8, 10, 50, 2, 3},
		"9223372036854775807":     {math.MaxInt64},
		"2:9223372036854775807:3": {2, 4611686018427387904, math.MaxInt64},
	} {
		if got, err := ParseLengths(text, Limits{}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestTheGoldenGridIsARange(t *testing.T) {
	raw, err := os.ReadFile("../kernel/testdata/sweep_gbm42.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct{ Length int64 }
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	got, err := ParseLengths("6:200:80", Limits{})
	if err != nil || len(got) != len(golden) {
		t.Fatalf("%d lengths, %v", len(got), err)
	}
	for i := range golden {
		if got[i] != golden[i].Length {
			t.Errorf("length %d is %d, numpy's is %d", i, got[i], golden[i].Length)
		}
	}
}

func TestLengthsRefuse(t *testing.T) {
	for _, test := range []struct {
		text  string
		kind  Kind
		index int
	}{
		{"", Malformed, 0}, {"abc", Malformed, 0}, {"6,", Malformed, 1}, {"6,,8", Malformed, 1}, {"6 ,8", Malformed, 0},
		{"6.0", Malformed, 0}, {"6:200", Malformed, 0}, {"6:200:80:1", Malformed, 0}, {"6:x:3", Malformed, 0},
		{"+6", Malformed, 0}, {"9223372036854775808", Malformed, 0}, {"0x10", Malformed, 0}, {"1_0", Malformed, 0},
		{"1", Invalid, 0}, {"6,0", Invalid, 1}, {"6,8,-1", Invalid, 2}, {"1:5:3", Invalid, 0},
		{"200:6:80", Invalid, 0}, {"6:200:0", Invalid, 0}, {"6:200:-5", Invalid, 0},
		{"6:200:101", OverLimit, 0}, {"6:200:100,6", OverLimit, 1}, {"6:200:9223372036854775807", OverLimit, 0},
	} {
		_, err := ParseLengths(test.text, Limits{Combos: 100})
		t.Run(test.text, func(t *testing.T) { wantError(t, err, test.kind, "lengths", test.index) })
	}
}

func TestAFeeIsANumberAsJSONHasIt(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "0.0009": 0.0009, "9e-4": 0.0009, "-0.1": -0.1} {
		if got, err := ParseFee(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " ", "free", "NaN", "Inf", "0x1p-10", "1_0", ".5", "+1", "1e999", " 1", "1 ", "1,2", "01"} {
		_, err := ParseFee(text)
		t.Run(text, func(t *testing.T) { wantError(t, err, Malformed, "fee", -1) })
	}
}

func FuzzParseLengths(f *testing.F) {
	f.Add("6:200:80,5")
	f.Add("2:9223372036854775807:3")
	f.Fuzz(func(t *testing.T, text string) {
		lengths, err := ParseLengths(text, Limits{Combos: 1000})
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		if len(lengths) == 0 || len(lengths) > 1000 || slices.Min(lengths) < 2 {
			t.Fatalf("%q reads as %v", text, lengths)
		}
	})
}
