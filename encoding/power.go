package encoding

//go:generate go run powers_gen.go

// A power is the 128 leading bits of a power of ten, rounded up, and written
// as hi * 2^64 - lo: so hi alone is never too small, and where a product's
// other bits can't matter, one multiplication by it will do.
//
//	10^p = (hi * 2^64 - lo) * 2^(log2Power(p) - 127)
type power struct{ hi, lo uint64 }

// log2Power returns floor(log2(10^p)), for -1233 <= p <= 1233.
func log2Power(p int) int { return p * 108853 >> 15 }

// log10Binary returns floor(log10(2^e)), for -1650 <= e <= 1650.
func log10Binary(e int) int { return e * 78913 >> 18 }
