package loadtest

import (
	"syscall"
	"time"
)

// sleepExact sleeps for at most d, a millisecond or two. The runtime's timers
// wait in whole milliseconds when nothing else is to be done, which is many
// calls' worth: this asks the operating system for what is needed.
func sleepExact(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early; the caller looks at the clock
}
