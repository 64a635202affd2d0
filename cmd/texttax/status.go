package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// status is one line on a terminal that is written anew again and again. Where
// standard error is no terminal it is silent.
type status struct {
	out   io.Writer // nil if it is no terminal
	width int       // of what stands there
}

func newStatus(stderr io.Writer) *status {
	if f, ok := stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &status{out: f}
		}
	}
	return &status{}
}

func (s *status) show(format string, args ...any) {
	if s.out == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	fmt.Fprintf(s.out, "\r%s%s", line, strings.Repeat(" ", max(0, s.width-len(line))))
	s.width = len(line)
}

// end takes the line away.
func (s *status) end() {
	if s.out != nil && s.width > 0 {
		fmt.Fprintf(s.out, "\r%s\r", strings.Repeat(" ", s.width))
		s.width = 0
	}
}
