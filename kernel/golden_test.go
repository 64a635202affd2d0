package kernel

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"texttax/kernel/gbm42"
)

// The golden files come from an independent implementation, a line-for-line
// numba kernel, and not from this package.

type goldenCombo struct {
	Length  int64
	Windows Params
	PnL     float64
	Trades  int64
}

type edgeCase struct {
	Name    string
	Fee     float64
	Close   []float64
	Windows []Params
	PnL     []float64
	Trades  []int64
	Open    []int8
}

func readGolden(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func goldenGrid(t testing.TB) []goldenCombo {
	var grid []goldenCombo
	readGolden(t, "sweep_gbm42.json", &grid)
	if len(grid) != 80 {
		t.Fatalf("the grid has %d combos, want 80", len(grid))
	}
	return grid
}

func combosOf(grid []goldenCombo) []Params {
	combos := make([]Params, len(grid))
	for i := range grid {
		combos[i] = grid[i].Windows
	}
	return combos
}

func sweep1(t testing.TB, closes []float64, combos []Params, fee float64) *Results {
	t.Helper()
	var out Results
	if err := Sweep(t.Context(), closes, combos, fee, 1, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// sameBits calls any two NaNs equal: which of its many bit patterns an
// operation yields is the processor's choice.
func sameBits(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func wantSame(t testing.TB, got, want *Results) {
	t.Helper()
	if len(got.PnL) != len(want.PnL) || len(got.Trades) != len(want.Trades) || len(got.Open) != len(want.Open) {
		t.Fatalf("columns of %d, %d and %d elements, want %d", len(got.PnL), len(got.Trades), len(got.Open), len(want.PnL))
	}
	for c := range want.PnL {
		if !sameBits(got.PnL[c], want.PnL[c]) || got.Trades[c] != want.Trades[c] || got.Open[c] != want.Open[c] {
			t.Errorf("combo %d: pnl %v, %d trades, open %d; want %v, %d, %d", c,
				got.PnL[c], got.Trades[c], got.Open[c], want.PnL[c], want.Trades[c], want.Open[c])
		}
	}
}

func TestGoldenGrid(t *testing.T) {
	grid := goldenGrid(t)
	var out Results
	if err := Sweep(t.Context(), gbm42.Close(), combosOf(grid), DefaultFee, 0, &out); err != nil {
		t.Fatal(err)
	}
	for i, want := range grid {
		if math.Float64bits(out.PnL[i]) != math.Float64bits(want.PnL) || out.Trades[i] != want.Trades {
			t.Errorf("length %d: pnl %v on %d trades, want %v on %d",
				want.Length, out.PnL[i], out.Trades[i], want.PnL, want.Trades)
		}
	}
}

func TestPublishedFingerprint(t *testing.T) {
	out := sweep1(t, gbm42.Close(), []Params{Expand(6)}, 0.0009)
	if out.PnL[0] != -5165.584357716994 || out.Trades[0] != 57029 {
		t.Errorf("pnl %v on %d trades, want -5165.584357716994 on 57029", out.PnL[0], out.Trades[0])
	}
}

func TestGoldenEdgeCases(t *testing.T) {
	var cases []edgeCase
	readGolden(t, "edge_cases.json", &cases)
	if len(cases) != 18 {
		t.Fatalf("%d cases, want 18", len(cases))
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			got := sweep1(t, tc.Close, tc.Windows, tc.Fee)
			wantSame(t, got, &Results{tc.PnL, tc.Trades, tc.Open})
		})
	}
}
