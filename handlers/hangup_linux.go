package handlers

import "golang.org/x/sys/unix"

// hungUp tells whether the peer of a socket has gone, even if bytes of it are
// still unread. A peer that has only ended its sending half counts as gone if
// halves says so: of TCP, one can't know more.
func hungUp(fd uintptr, halves bool) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	if halves {
		fds[0].Events = unix.POLLRDHUP
	}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
