//go:build !purego

package encoding

// splitDigits does the same as splitDigitsGo, with SSE2, which every amd64 has.
//
//go:noescape
func splitDigits(halves *[floatBlock][2]uint64, zeros *[floatBlock]uint16)
