//go:build !amd64 || purego

package encoding

func splitDigits(halves *[floatBlock][2]uint64, zeros *[floatBlock]uint16) {
	splitDigitsGo(halves, zeros)
}
