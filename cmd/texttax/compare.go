package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"texttax/loadtest"
	"texttax/loadtest/report"
	"texttax/loadtest/study"
)

type compareCommand struct {
	URL    []string      `placeholder:"URL" help:"Study servers that are running, at http://host:port, unix:/path, frame+tcp://host:port, frame+unix:/path or frame+shm:/path; may be given several times. Without it compare starts one of its own."`
	Quick  bool          `help:"Take less than a minute, and fewer rounds."`
	Budget time.Duration `placeholder:"TIME" help:"Time for the rounds, of which there are at least three. 45s with --quick, else 8m."`
	Python string        `default:"python3" help:"Interpreter whose own formats are measured too, if it has numpy."`
	Out    string        `placeholder:"DIR" help:"Write the results to this directory: JSON, CSV, an HTML page, and its pictures as SVG and PNG."`
}

// Help is shown by texttax compare --help.
func (*compareCommand) Help() string {
	return `Measures on this machine what text costs, what the boundary costs, and what is work: the tax of each format, the echo of 1 to 150,000 floats, and a sweep of 80 combos over 150,000 bars across each boundary, in one call or in many. Every answer is compared with the kernel's in this process.

  texttax compare --quick
  texttax compare --out results`
}

// budgets of time for the rounds.
const (
	quickBudget = 45 * time.Second
	fullBudget  = 8 * time.Minute
)

// Run studies this machine.
func (c *compareCommand) Run(ctx context.Context, out streams) (err error) {
	if c.Out != "" { // or the study would be over before one knew
		if err := os.MkdirAll(c.Out, 0o777); err != nil {
			return err
		}
	}
	options := study.Options{Python: c.Python, Quick: c.Quick, Budget: fullBudget}
	if c.Quick {
		options.Budget = quickBudget
	}
	if c.Budget > 0 {
		options.Budget = c.Budget
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	options.Spawn = &loadtest.Spawn{Command: []string{binary, "sweep", "--frame"}}
	cores := "the servers were running"
	for _, url := range c.URL {
		b, err := loadtest.ParseBoundary(url)
		if err != nil {
			return err
		}
		options.Boundaries = append(options.Boundaries, b)
	}
	if len(c.URL) == 0 {
		server, err := startCompanion(binary)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		options.Boundaries, cores = server.boundaries, server.cores
	}
	began := time.Now()
	status := newStatus(out.stderr)
	options.Progress = func(share float64, left time.Duration, what string) {
		const width = 30
		full := min(int(share*width), width)
		status.show("[%s%s] %3.0f %%, %s left: %s", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*share, left.Round(time.Second), what)
	}
	results, err := study.Run(ctx, options)
	status.end()
	if results == nil {
		return err
	}
	results.Notes = append(results.Notes, cores)
	if err != nil {
		fmt.Fprintf(out.stdout, "NOT complete: %v\n\n", err)
	}
	return errors.Join(err, study.WriteTables(out.stdout, results), writeReport(c.Out, out, &report.Report{Study: results}, began, err))
}
