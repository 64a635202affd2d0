//go:build !amd64 || purego

package encoding

func plainFloats(dst []float64, text []byte, p int) (n, end int) { return plainFloatsGo(dst, text, p) }
