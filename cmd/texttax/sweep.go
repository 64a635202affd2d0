package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

type sweepCommand struct {
	Frame   bool   `xor:"series" required:"" env:"-" help:"Read one frame from standard input, and write its reply to standard output."`
	Close   string `xor:"series" required:"" env:"-" placeholder:"FILE" help:"Sweep over the series in this file."`
	Dataset string `xor:"series" required:"" env:"-" placeholder:"ID" help:"Sweep over a built-in series: gbm42, of 150,000 bars."`

	Column  string `env:"-" placeholder:"NAME" help:"Column of the closes in a file that has columns. Default: close."`
	Lengths string `env:"-" placeholder:"LENGTHS" help:"Combos, as lengths and ranges start:stop:count, separated by commas. Default: ${lengths}."`
	Fee     string `env:"-" placeholder:"FEE" help:"Round-trip fee, as a fraction of the position. Default: ${fee}."`
	Output  string `env:"-" placeholder:"FORM" help:"Form of the results: table, json or csv. Default: a table on a terminal, else csv."`
}

// defaultLengths are the study's grid.
const defaultLengths = "6:200:80"

// Help is shown by texttax sweep --help.
func (*sweepCommand) Help() string {
	return `Runs one sweep and exits: no server is needed. Each combo gives its profit in percentage points, the number of closed trades, and the side that is still open.

  texttax sweep --dataset gbm42
  texttax sweep --close prices.parquet --column adjusted --lengths 6,8,20:200:10 --fee 0.0005 --output json

Files are read by their extension: ` + readable + `.

With --frame it is the server of a single frame: [u32 length][body] from standard input, as texttax serve --frame-listen takes them, and the reply to standard output.

The exit status is 0 if all is well, 2 for a command line that can't be used, and 1 for everything else, such as a file with a price that is none.`
}

// Validate refuses flags that don't go together.
func (c *sweepCommand) Validate() error {
	if c.Frame && (c.Lengths != "" || c.Fee != "" || c.Column != "" || c.Output != "") {
		return errors.New("--frame takes no other flags: everything is in the frame")
	}
	if c.Column != "" && c.Close == "" {
		return errors.New("--column is for the file of --close")
	}
	if c.Dataset != "" && c.Dataset != gbm42.ID {
		return fmt.Errorf("--dataset: there is none called %q; built in is %s", c.Dataset, gbm42.ID)
	}
	if !slices.Contains([]string{"", "table", "json", "csv"}, c.Output) {
		return fmt.Errorf("--output must be table, json or csv, not %q", c.Output)
	}
	if _, err := c.combos(); err != nil {
		return fmt.Errorf("--lengths: %w", err)
	}
	if _, err := c.fee(); err != nil {
		return fmt.Errorf("--fee: %w", err)
	}
	return nil
}

// lengths returns the lengths of the combos.
func (c *sweepCommand) lengths() ([]int64, error) {
	text := c.Lengths
	if text == "" {
		text = defaultLengths
	}
	return encoding.ParseLengths(text, encoding.Limits{Combos: math.MaxInt32})
}

func (c *sweepCommand) combos() ([]kernel.Params, error) {
	lengths, err := c.lengths()
	if err != nil {
		return nil, err
	}
	combos := make([]kernel.Params, len(lengths))
	for i, n := range lengths {
		combos[i] = kernel.Expand(n)
	}
	return combos, nil
}

func (c *sweepCommand) fee() (float64, error) {
	if c.Fee == "" {
		return kernel.DefaultFee, nil
	}
	fee, err := encoding.ParseFee(c.Fee)
	if err != nil {
		return 0, err
	}
	return fee, encoding.CheckFee(fee)
}

// Run runs one sweep.
func (c *sweepCommand) Run(ctx context.Context, out streams) error {
	if c.Frame {
		return answerFrame(ctx, os.Stdin, out.stdout)
	}
	series := gbm42.Close
	if c.Close != "" {
		read, err := readSeries(c.Close, c.Column)
		if err != nil {
			return err
		}
		series = func() []float64 { return read }
	}
	lengths, err := c.lengths()
	if err != nil {
		return err
	}
	combos, err := c.combos()
	if err != nil {
		return err
	}
	fee, err := c.fee()
	if err != nil {
		return err
	}
	var results kernel.Results
	if err := sweepWithProgress(ctx, series(), combos, fee, &results, out.stderr); err != nil {
		return err
	}
	return c.print(out.stdout, lengths, &results)
}

// answerFrame reads one frame, and writes the reply to it.
func answerFrame(ctx context.Context, in io.Reader, out io.Writer) error {
	frames := encoding.NewFrameReader(in, nil)
	length, err := frames.Next()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("standard input ended before the length of a frame")
	case err != nil:
		return fmt.Errorf("standard input: %w", err)
	case !encoding.IsFrameBody(length):
		return fmt.Errorf("the frame announces %d bytes; a body has %d, and 8 for each number", length, encoding.MinFrameBody)
	}
	pad := encoding.BodyOffset(encoding.Octet, length) // which aligns the numbers
	body, err := frames.AppendBody(make([]byte, pad, pad+int(min(length, 4<<20))))
	body = body[pad:]
	if err != nil {
		return fmt.Errorf("standard input ended after %d of the %d bytes of a frame: %w", len(body), length, err)
	}
	var req encoding.Request
	if err := encoding.Octet.Decode(body, &req); err != nil {
		return err
	}
	var reply []byte
	if req.Op == encoding.OpEcho {
		reply = encoding.EchoReply(body, len(req.Close))
	} else {
		switch err := req.CheckPrices(); {
		case err != nil:
			return err
		case len(req.Close) == 0 || len(req.Params) == 0:
			return errors.New("a sweep needs bars and combos")
		}
		var results kernel.Results
		if err := kernel.Sweep(ctx, req.Close, req.Params, kernel.DefaultFee, 0, &results); err != nil {
			return err
		}
		reply = encoding.AppendFrameResults(nil, &results)
	}
	_, err = out.Write(reply)
	return err
}

// progressAfter is how long a sweep takes before it tells of its progress. It
// is a variable for the tests.
var progressAfter = time.Second

// sweepWithProgress is kernel.Sweep, which tells on a terminal how far it is if
// that takes long.
func sweepWithProgress(ctx context.Context, series []float64, combos []kernel.Params, fee float64, out *kernel.Results, log io.Writer) error {
	if !isTerminal(log) {
		return kernel.Sweep(ctx, series, combos, fee, 0, out)
	}
	out.Resize(len(combos))
	began, shown := time.Now(), false
	// Combos share work, so that they come as many at a time as a moment is
	// worth.
	for done, some := 0, 1; done < len(combos); {
		some = min(some, len(combos)-done)
		var part kernel.Results
		started := time.Now()
		if err := kernel.Sweep(ctx, series, combos[done:][:some], fee, 0, &part); err != nil {
			if shown {
				fmt.Fprintln(log)
			}
			return err
		}
		copy(out.PnL[done:], part.PnL)
		copy(out.Trades[done:], part.Trades)
		copy(out.Open[done:], part.Open)
		done += some
		if time.Since(started) < 200*time.Millisecond {
			some *= 2
		} else {
			some = max(1, some/2)
		}
		if time.Since(began) > progressAfter {
			shown = true
			fmt.Fprintf(log, "\r%d of %d combos", done, len(combos))
		}
	}
	if shown {
		fmt.Fprint(log, "\r\x1b[K") // results are what is left to see
	}
	return nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// print writes the results in the form that was asked for.
func (c *sweepCommand) print(w io.Writer, lengths []int64, results *kernel.Results) error {
	form := c.Output
	if form == "" {
		form = "csv"
		if isTerminal(w) {
			form = "table"
		}
	}
	out := bufio.NewWriter(w)
	var err error
	switch form {
	case "json":
		var body []byte
		if body, err = encoding.JSON.AppendResults(nil, results); err == nil {
			_, err = out.Write(append(body, '\n'))
		}
	case "csv":
		err = printCSV(out, lengths, results)
	case "table":
		err = printTable(out, lengths, results)
	}
	return errors.Join(err, out.Flush())
}

func printCSV(out io.Writer, lengths []int64, results *kernel.Results) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"length", "pnl", "trades", "open"}) // Error tells
	for i, n := range lengths {
		_ = w.Write([]string{
			strconv.FormatInt(n, 10),
			strconv.FormatFloat(results.PnL[i], 'g', -1, 64),
			strconv.FormatInt(results.Trades[i], 10),
			strconv.Itoa(int(results.Open[i])),
		})
	}
	w.Flush()
	return w.Error()
}

func printTable(out io.Writer, lengths []int64, results *kernel.Results) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "length\tprofit, %\ttrades\topen\t")
	for i, n := range lengths {
		open := "none"
		switch results.Open[i] {
		case +1:
			open = "long"
		case -1:
			open = "short"
		}
		fmt.Fprintf(w, "%d\t%.2f\t%d\t%s\t\n", n, results.PnL[i], results.Trades[i], open)
	}
	return w.Flush()
}
