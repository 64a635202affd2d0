package study

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"texttax/loadtest"
)

// Theirs is where the figures beside ours come from.
const Theirs = "a published measurement: Python, Apple M2 Max, 150,000 bars x 80 combos over a Unix socket"

// Figures of the published measurement, in seconds.
const (
	TheirRawEncode  = 49.1e-6
	TheirJSONEncode = 66_243e-6
	TheirEcho       = 2_043e-6 // of 1.2 MB
	TheirFloor      = 14e-6
	TheirSweep      = 2.010 // in process
	TheirChunky     = 2.276
	TheirChatty     = 2.383
	TheirPreloaded  = 1.3e-3 // boundary of 80 calls
	TheirSpawn      = 24e-3  // a call
	TheirPerBar     = 2.1    // boundary of 150,000 calls
)

// WriteTables writes all tables for people to read.
func WriteTables(out io.Writer, r *Results) error {
	t := &tables{out: out, Results: r}
	t.kernels()
	t.tax()
	t.curves()
	t.crossings()
	t.waterfall()
	t.generator()
	t.verdict()
	return t.err
}

type tables struct {
	*Results
	out io.Writer
	err error
}

// print writes text. Lines with tabs are rows of a table, which ends with the
// first line that has none.
func (t *tables) print(text string) {
	var rows [][]string
	flush := func() {
		if t.err == nil && rows != nil {
			t.err = loadtest.WriteColumns(t.out, rows)
		}
		rows = nil
	}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) > 1 {
			rows = append(rows, cells)
			continue
		}
		flush()
		if t.err == nil {
			_, t.err = io.WriteString(t.out, line)
		}
	}
	flush()
}

// us writes seconds in microseconds.
func us(seconds float64) string {
	v := seconds * 1e6
	switch {
	case v != v:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	return count(int(v + 0.5))
}

// count writes a whole number with commas.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// times writes a ratio.
func times(ratio float64) string {
	switch {
	case ratio != ratio:
		return "-"
	case ratio < 10:
		return fmt.Sprintf("%.2fx", ratio)
	}
	return count(int(ratio+0.5)) + "x"
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func (t *tables) kernels() {
	var b strings.Builder
	fmt.Fprintf(&b, "The kernel: %s combos over %s bars in this process, on one goroutine, by its variants. All give the same bits.\n", count(t.Combos), count(t.Bars))
	fmt.Fprint(&b, "\tms\treference's time over it\t\n")
	for _, k := range t.Kernels {
		if len(k.Seconds) > 0 {
			fmt.Fprintf(&b, "%s\t%.2f\t%s\t\n", k.Name, Median(k.Seconds)*1e3, times(Median(t.Kernels[0].Seconds)/Median(k.Seconds)))
		}
	}
	fmt.Fprintf(&b, "theirs*: numba\t%.0f\t\t\n", TheirSweep*1e3)
	t.print(b.String() + "\n")
}

func (t *tables) tax() {
	var b strings.Builder
	fmt.Fprintf(&b, "The tax: %s floats to bytes and back. The ratios are to a copy of the bytes, of Python's rows to its own.\n", count(t.Bars))
	fmt.Fprint(&b, "\tbytes\tencode us\tratio\tdecode us\tratio\ttheirs*: encode us\tratio\t\n")
	fmt.Fprintf(&b, "a copy in memory\t%s\t%s\t1.00x\t\t\t\t\t\n", count(8*t.Bars), us(Median(t.Copy)))
	pythonRaw := 0.0
	for _, x := range t.Tax {
		base := Median(t.Copy)
		if x.Python {
			if pythonRaw == 0 {
				pythonRaw = Median(x.Encode)
			}
			base = pythonRaw
		}
		encode, decode := Median(x.Encode), Median(x.Decode)
		theirs := "\t"
		switch x.Name {
		case "Python, raw bytes":
			theirs = us(TheirRawEncode) + "\t1x"
		case "Python, json":
			theirs = us(TheirJSONEncode) + "\t1,348x"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Name, count(x.Bytes), us(encode), times(encode/base), us(decode), times(decode/base), theirs)
	}
	t.print(b.String() + "\n")
}

func (t *tables) curves() {
	var b strings.Builder
	fmt.Fprint(&b, "The echo curve: so many floats there and back, in us, client and server, all phases. Line: floor + slope x floats.\n")
	if len(t.Curves) == 0 {
		return
	}
	fmt.Fprint(&b, "\t")
	for _, n := range sizes(t.Bars) {
		fmt.Fprintf(&b, "%s\t", count(n))
	}
	fmt.Fprint(&b, "floor us\tns a float\tGB/s\t\n")
	for _, c := range t.Curves {
		if len(c.Points[len(c.Points)-1].Seconds) == 0 {
			continue // the study ended before
		}
		fmt.Fprintf(&b, "%s %s\t", c.Boundary, c.Format)
		for _, p := range c.Points {
			fmt.Fprintf(&b, "%s\t", us(Median(p.Seconds)))
		}
		line := c.Line()
		fmt.Fprintf(&b, "%s\t%.2f\t%.2f\t\n", us(line.Floor), line.Slope*1e9, line.GBPerSecond())
	}
	fmt.Fprintf(&b, "theirs*: raw%s%s\t%s\t%.2f\t%.2f\t\n", strings.Repeat("\t", len(sizes(t.Bars))), us(TheirEcho), us(TheirFloor),
		(TheirEcho-TheirFloor)/150_000*1e9, Line{Slope: (TheirEcho - TheirFloor) / 150_000}.GBPerSecond())
	t.print(b.String() + "\n")
}

func (t *tables) crossings() {
	base := t.Baseline()
	if base == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The boundary: %s combos over %s bars. G is compute per call over the floor; 1/(1+G) is the share that it predicts for the bare call, without its text.\n", count(t.Combos), count(t.Bars))
	fmt.Fprint(&b, "\tcalls\tms\tto in process\tboundary ms\tshare\tG\t1/(1+G)\ttheirs*\t\n")
	for i := range t.Crossings {
		c := &t.Crossings[i]
		if len(c.Seconds) == 0 {
			continue
		}
		s := t.ShareOf(c)
		calls := count(c.Calls)
		if c.Measured < c.Calls {
			calls += "~"
		}
		g, predicted := "", ""
		if s.HasFloor {
			g, predicted = fmt.Sprintf("%.3g", s.G), percent(s.Predicted)
		}
		fmt.Fprintf(&b, "%s\t%s\t%.2f\t%s\t%.2f\t%s\t%s\t%s\t%s\t\n", c, calls, s.Total*1e3, times(s.Ratio), s.Measured*s.Total*1e3, percent(s.Measured), g, predicted, theirsOf(c))
	}
	fmt.Fprint(&b, "\n")
	t.print(b.String())
	for i := range t.Crossings {
		if c := &t.Crossings[i]; c.Measured < c.Calls {
			t.print("~ measured on a part of the calls, for the whole in proportion. Per bar the sweep itself, in process, is added.\n\n")
			return
		}
	}
}

// theirsOf is the published figure of a crossing. Theirs was raw bytes.
func theirsOf(c *Crossing) string {
	switch {
	case c.Boundary == loadtest.InProcess.Name() && c.Granularity == loadtest.Chunky:
		return fmt.Sprintf("%.3f s", TheirSweep)
	case c.Format != "octet":
		return ""
	case c.Boundary == "spawn":
		return fmt.Sprintf("boundary %.0f ms a call", TheirSpawn*1e3)
	case c.Granularity == loadtest.Chunky:
		return fmt.Sprintf("%.3f s", TheirChunky)
	case c.Granularity == loadtest.Chatty:
		return fmt.Sprintf("%.3f s, %.2fx chunky", TheirChatty, TheirChatty/TheirChunky)
	case c.Granularity == loadtest.Preloaded:
		return fmt.Sprintf("boundary %.1f ms", TheirPreloaded*1e3)
	case c.Granularity == loadtest.PerBar:
		return fmt.Sprintf("boundary %.1f s", TheirPerBar)
	}
	return ""
}

// Chunkies lists the crossings with all in one call, which the waterfall is
// made of.
func (r *Results) Chunkies() []*Crossing {
	var all []*Crossing
	for i := range r.Crossings {
		if c := &r.Crossings[i]; c.Granularity == loadtest.Chunky && len(c.Seconds) > 0 {
			all = append(all, c)
		}
	}
	return all
}

func (t *tables) waterfall() {
	var b strings.Builder
	fmt.Fprint(&b, "The waterfall: where one chunky call's time goes, in us.\n\t")
	var shown []loadtest.Phase
	for _, p := range loadtest.Phases() {
		for _, c := range t.Chunkies() {
			if len(c.Phases[p.String()]) > 0 {
				shown = append(shown, p)
				fmt.Fprintf(&b, "%s\t", p)
				break
			}
		}
	}
	fmt.Fprint(&b, "all\t\n")
	for _, c := range t.Chunkies() {
		fmt.Fprintf(&b, "%s %s\t", c.Boundary, c.Format)
		for _, p := range shown {
			fmt.Fprintf(&b, "%s\t", us(Median(c.Phases[p.String()])))
		}
		fmt.Fprintf(&b, "%s\t\n", us(Median(c.Seconds)))
	}
	t.print(b.String() + "\n")
}

func (t *tables) generator() {
	g := t.Generator
	if len(g.Lean) == 0 || len(g.Minimal) == 0 || len(g.Standard) == 0 {
		return
	}
	lean, minimal, standard := Median(g.Lean), Median(g.Minimal), Median(g.Standard)
	t.print(fmt.Sprintf("The generator: an 8-byte echo takes it %s us, %.2f times the least that a client can do (%s us); net/http's client %.2f times (%s us).\n",
		us(lean), lean/minimal, us(minimal), standard/minimal, us(standard)))
}

func (t *tables) verdict() {
	if t.Gate.Failure != "" {
		t.print(fmt.Sprintf("The gate FAILED: %s\n", t.Gate.Failure))
	} else {
		t.print(fmt.Sprintf("The gate: passed. %s answers are those of the kernel in this process: trades exactly, profits to 1e-6, echoes bit for bit.\n", count(int(t.Gate.Verified))))
	}
	t.print(fmt.Sprintf("Medians of %d rounds.\n", t.Rounds))
	for _, n := range t.Notes {
		t.print(strings.ToUpper(n[:1]) + n[1:] + ".\n")
	}
	t.print("* " + Theirs + ".\n")
}
