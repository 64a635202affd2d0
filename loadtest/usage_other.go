//go:build !unix

package loadtest

import "time"

// ownCPU is not known here.
func ownCPU() time.Duration { return 0 }
