package loadtest

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// sleepExact sleeps for at most d, a millisecond or two. The runtime's timers
// wait in whole milliseconds when nothing else is to be done, which is many
// calls' worth: this asks the operating system for what is needed, and not for
// its usual 50 us of slack on top.
func sleepExact(d time.Duration) {
	runtime.LockOSThread() // the slack is the thread's
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal may end it early; the caller looks at the clock
}
