//go:build !linux

package loadtest

import "time"

// ownStarvation is not known here.
func ownStarvation() time.Duration { return -1 }
