//go:build !linux

package loadtest

import "time"

// sleepExact sleeps for d.
func sleepExact(d time.Duration) { time.Sleep(d) }
