//go:build !amd64 || purego

package encoding

// shortest finds the text of up to a block of floats.
func (d *decimals) shortest(floats []float64) {
	d.find(floats)
	d.split()
}
