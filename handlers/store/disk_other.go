//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import (
	"errors"
	"os"
)

// Without a lock and a sync of directories there is no promise to keep.
func lock(*os.File) error { return errors.New("datasets can't be kept on disk on this system") }

func survive() {}

func isFull(error) bool       { return false }
func isUnreadable(error) bool { return false }
