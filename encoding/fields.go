package encoding

import (
	"strconv"

	"texttax/kernel"
)

// This file holds what the formats that have maps share: the names of the
// fields, and what each field may hold.

// requestKeys are the keys of a request in the formats that have maps, and
// resultKeys those of an answer.
var (
	requestKeys = []string{"close", "params", "lengths", "dataset", "fee"}
	resultKeys  = []string{"pnl", "trades", "open"}
)

const (
	keyClose = iota
	keyParams
	keyLengths
	keyDataset
	keyFee
)

const (
	keyPnL = iota
	keyTrades
	keyOpen
)

// knownKey returns the place of name among the known keys, and an error if it
// is none of them or has been seen before.
func knownKey(name string, known []string, seen *uint32) (int, error) {
	for i, k := range known {
		if k != name {
			continue
		}
		if *seen&(1<<i) != 0 {
			return 0, malformedAt(k, -1, "is given twice")
		}
		*seen |= 1 << i
		return i, nil
	}
	return 0, malformed("unknown key %s; known are %q", strconv.Quote(truncate(name)), known)
}

// nonNil makes an empty slice differ from none.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func wrongWindowCount(combo, n int) *Error {
	return invalidAt("params", combo, "must have six windows (%q), not %d", kernel.WindowNames, n)
}

// setDataset sets the id of the series. An empty one would look unset.
func (req *Request) setDataset(id string) error {
	if id == "" {
		return invalidAt("dataset", -1, "must not be empty")
	}
	req.Dataset = id
	return nil
}

// appendResult appends a whole number to the column trades or open.
func appendResult(res *kernel.Results, key, index int, v int64) error {
	if key == keyTrades {
		res.Trades = append(res.Trades, v)
		return nil
	}
	if v < -1 || v > 1 {
		return noSide(index, v)
	}
	res.Open = append(res.Open, int8(v))
	return nil
}

// checkSides checks the column open of an answer that came as one block.
func checkSides(open []int8) error {
	for i, v := range open {
		if v < -1 || v > 1 {
			return noSide(i, int64(v))
		}
	}
	return nil
}

func noSide(index int, v int64) *Error {
	return invalidAt("open", index, "must be -1, 0 or 1, not %d", v)
}

// checkColumns checks that the columns of an answer are of one length.
func checkColumns(res *kernel.Results) error {
	if len(res.PnL) != len(res.Trades) || len(res.PnL) != len(res.Open) {
		return malformed("an answer has %d pnl, %d trades and %d open", len(res.PnL), len(res.Trades), len(res.Open))
	}
	return nil
}
