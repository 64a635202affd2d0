//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// lock locks a file for as long as it is open, or says that another process
// has.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process is using it")
	}
	if err != nil {
		return fmt.Errorf("locking it: %w", err)
	}
	return nil
}

// survive makes passing a limit on the size of files an error of the write,
// instead of the end of the process.
func survive() { signal.Ignore(syscall.SIGXFSZ) }

// isFull tells whether the disk has no room for what was written: it is full,
// or a quota or a limit on the size of files says so.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// isUnreadable tells whether the disk has lost what it should hold.
func isUnreadable(err error) bool { return errors.Is(err, syscall.EIO) }
