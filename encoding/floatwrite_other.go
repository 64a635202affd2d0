//go:build !amd64 || purego

package encoding

// shortest finds the text of up to a block of floats.
func (d *decimals) shortest(floats []float64) {
	d.find(floats)
	d.split()
}

// put writes decimals from i on, each with a comma behind it, up to n or the
// first that is undecided, and returns the number of bytes and where it ended.
func (d *decimals) put(out *[floatBlock * maxFloatText]byte, i, n int) (size, end int) {
	return d.putGo(out, i, n)
}
