package encoding

import (
	"math/bits"
	"strconv"
	"strings"

	"texttax/kernel"
)

// bytesLength is what a length takes in memory.
const bytesLength = 8

// ParseLengths reads the text form of lengths: single lengths and ranges,
// separated by commas. A range start:stop:count is the floor of count evenly
// spaced values from start to stop, both included: 6:200:80 is what numpy
// calls floor(linspace(6, 200, 80)). The values are computed exactly.
//
// An *Error names the element at fault. Of the limits, Combos bounds the lengths
// in all, and Take is asked for their memory, both before they are made.
func ParseLengths(text string, limits Limits) ([]int64, error) {
	n := 0
	err := eachRange(text, func(i int, _, _, count int64) error {
		if most := limits.Combos; most > 0 && count > int64(most-n) {
			return &Error{Kind: OverLimit, Field: "lengths", Index: i, Detail: "more combos than the limit of " + strconv.Itoa(most)}
		}
		n += int(count)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := limits.take(n, bytesLength); err != nil {
		return nil, err
	}
	lengths := make([]int64, 0, n)
	err = eachRange(text, func(_ int, start, stop, count int64) error {
		for k := range count {
			lengths = append(lengths, spaced(start, stop, count, k))
		}
		return nil
	})
	return lengths, err
}

// eachRange calls use with the elements of the text, of which a length is a range
// of one.
func eachRange(text string, use func(i int, start, stop, count int64) error) error {
	i := 0
	for element := range strings.SplitSeq(text, ",") {
		parts := strings.Split(element, ":")
		if len(parts) != 1 && len(parts) != 3 {
			return malformedAt("lengths", i, "must be a length, or a range start:stop:count such as 6:200:80, not %s", strconv.Quote(truncate(element)))
		}
		var values [3]int64
		for j, part := range parts {
			v, err := strconv.ParseInt(part, 10, 64)
			if err != nil || part[0] == '+' {
				return malformedAt("lengths", i, "%s is no whole number below 2^63", strconv.Quote(truncate(part)))
			}
			values[j] = v
		}
		count := int64(1)
		if len(parts) == 3 {
			if count = values[2]; count < 1 {
				return invalidAt("lengths", i, "the count of a range must be at least 1, not %d", count)
			}
			if values[1] < values[0] {
				return invalidAt("lengths", i, "the range stops at %d, below its start %d", values[1], values[0])
			}
		}
		if values[0] < kernel.MinLength {
			return invalidAt("lengths", i, "must be at least %d, not %d", kernel.MinLength, values[0])
		}
		if err := use(i, values[0], values[1], count); err != nil {
			return err
		}
		i++
	}
	return nil
}

// ParseFee reads the text form of a fee: a number as JSON has it.
func ParseFee(text string) (float64, error) {
	s := &jsonScanner{text: []byte(text)}
	number, err := s.number()
	if err != nil || len(number) != len(text) || text == "" {
		return 0, malformedAt("fee", -1, "%s is no number", strconv.Quote(truncate(text)))
	}
	return parseFloat(number, "fee", -1)
}

// spaced returns element k of count values evenly spaced from start to stop,
// rounded down. start and stop must not be negative.
func spaced(start, stop, count, k int64) int64 {
	if k == 0 {
		return start
	}
	// (stop-start)*k/(count-1) fits, because k <= count-1; its product may
	// take 128 bits.
	high, low := bits.Mul64(uint64(stop-start), uint64(k))
	quotient, _ := bits.Div64(high, low, uint64(count-1))
	return start + int64(quotient)
}
