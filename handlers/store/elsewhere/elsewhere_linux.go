// Package elsewhere runs tests in a process of their own, which the kernel
// treats otherwise: with a file system that only it sees, or as another user.
package elsewhere

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// again is set in the process that runs the one test.
const again = "TEXTTAX_TEST_ELSEWHERE"

// Run runs the calling test in a process of its own, and returns true in the
// one that called for it: its test is over then. Where the system allows no such
// process the test is skipped, and fails in CI.
func Run(t *testing.T, attributes *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(again) != "" {
		return false
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), again+"=1")
	child.SysProcAttr = attributes
	out, err := child.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL):
		missing := t.Skipf
		if os.Getenv("CI") != "" {
			missing = t.Fatalf
		}
		missing("this system gives the test no such process: %v", err)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// Mounts lets a process mount file systems that only it sees.
func Mounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// SmallDisk returns a directory with a file system of 1 MiB, for a process that
// Run has started with Mounts.
func SmallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// Nobody makes the process, if it is root's, one of a user whom permissions
// hold, and returns a directory of that user's.
func Nobody(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "texttax")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		const nobody = 65534
		if err := errors.Join(os.Chown(dir, nobody, nobody), syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
