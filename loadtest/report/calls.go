package report

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"texttax/loadtest"
)

// CallsFile is the name of a run's calls in its directory.
const CallsFile = "calls.csv"

// Calls writes the calls of a run to a file while it runs, a line each: their
// times in seconds since the start of the run, its warm-up included. A call
// that failed has empty times from there on.
type Calls struct {
	file *os.File
	out  *bufio.Writer
	line []byte
	err  error // the first; nothing is written after it
}

// CreateCalls makes the directory if need be, and calls.csv in it.
func CreateCalls(directory string) (*Calls, error) {
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(directory, CallsFile))
	if err != nil {
		return nil, err
	}
	c := &Calls{file: file, out: bufio.NewWriterSize(file, 1<<16)}
	_, c.err = c.out.WriteString("scheduled,started,sent,first_byte,done,decoded,outcome,status,bytes_out,bytes_in,warmup\n")
	return c, nil
}

// Observe writes a call. It is meant for Plan.Observe, which has no use for an
// error: that is kept for Close.
func (c *Calls) Observe(r *loadtest.Record) {
	if c.err != nil {
		return
	}
	line := c.line[:0]
	for i, at := range [...]time.Duration{r.Scheduled, r.Started, r.Sent, r.FirstByte, r.Done, r.Decoded} {
		if i < 2 || at > 0 {
			line = strconv.AppendFloat(line, at.Seconds(), 'f', 9, 64)
		}
		line = append(line, ',')
	}
	line = append(line, r.Outcome.String()...)
	for _, n := range [...]int{r.Status, r.BytesOut, r.BytesIn} {
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(n), 10)
	}
	line = append(line, ',')
	line = strconv.AppendBool(line, r.Warmup)
	c.line = append(line, '\n')
	_, c.err = c.out.Write(c.line)
}

// Close ends the file. It returns the first error of all writes.
func (c *Calls) Close() error {
	if c.err == nil {
		c.err = c.out.Flush()
	}
	return errors.Join(c.err, c.file.Close())
}
