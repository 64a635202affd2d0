package main

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startOnHalf starts a process on half of the cores that this one may use, if
// that leaves two for each, and returns how many it got; 0 means that it may
// use all.
func startOnHalf(process *exec.Cmd) (pinned int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 4 {
		return 0, process.Start()
	}
	half, n := upperHalf(all)
	// The process inherits the affinity of the thread that starts it.
	if unix.SchedSetaffinity(0, &half) != nil {
		return 0, process.Start()
	}
	err = process.Start()
	if back := unix.SchedSetaffinity(0, &all); err == nil {
		err = back
	}
	return n, err
}

// upperHalf returns the upper half of the cores of a set, and how many they
// are.
func upperHalf(all unix.CPUSet) (half unix.CPUSet, n int) {
	skip := all.Count() - all.Count()/2
	for core := 0; half.Count() < all.Count()/2; core++ {
		if !all.IsSet(core) {
			continue
		}
		if skip > 0 {
			skip--
		} else {
			half.Set(core)
		}
	}
	return half, half.Count()
}
