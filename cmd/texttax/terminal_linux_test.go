package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal makes a terminal. What is written to it is in the buffer once it is
// closed, by the function.
func terminal(t *testing.T) (*os.File, func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&shown, master) // ends with an error when nobody has the terminal any more
	}()
	return slave, func() string {
		_ = slave.Close()
		<-done
		_ = master.Close()
		return shown.String()
	}
}

func TestATerminalGetsATable(t *testing.T) {
	out, shown := terminal(t)
	err := run(context.Background(), []string{"sweep", "--dataset", "gbm42", "--lengths", "6"}, out, io.Discard)
	if got := shown(); err != nil || !strings.Contains(got, "57029  long") || strings.Contains(got, ",57029,") {
		t.Errorf("%v: %s", err, got)
	}
}

func TestALongSweepTellsOfItsProgressOnATerminal(t *testing.T) {
	after := progressAfter
	progressAfter = 0
	defer func() { progressAfter = after }()
	log, shown := terminal(t)
	const lengths = "6:200:40"
	var out, plain bytes.Buffer
	err := run(context.Background(), []string{"sweep", "--dataset", "gbm42", "--lengths", lengths}, &out, log)
	if got := shown(); err != nil || !strings.Contains(got, " of 40 combos") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%v: %q", err, got)
	}
	if err := run(context.Background(), []string{"sweep", "--dataset", "gbm42", "--lengths", lengths}, &plain, io.Discard); err != nil || plain.String() != out.String() {
		t.Errorf("the results are others with progress than without: %v\n%s\n%s", err, &out, &plain)
	}
}

func TestAShortSweepIsQuietOnATerminal(t *testing.T) {
	log, shown := terminal(t)
	err := run(context.Background(), []string{"sweep", "--dataset", "gbm42", "--lengths", "6"}, io.Discard, log)
	if got := shown(); err != nil || got != "" {
		t.Errorf("%v: %q", err, got)
	}
}
