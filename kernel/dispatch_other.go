//go:build !amd64 || purego

package kernel

// assembly returns nothing: this build has none.
func assembly() []*implementation { return nil }
