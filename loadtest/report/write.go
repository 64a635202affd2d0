package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"texttax/loadtest"
	"texttax/loadtest/chart"
	"texttax/loadtest/study"
)

// ResultsFile is the name of the report's JSON in its directory.
const ResultsFile = "results.json"

// Write writes the report into a directory, which it makes if need be:
// results.json with everything, samples.csv with what was measured round by
// round, index.html with all pictures, and each picture as SVG, and as PNG on
// light and on dark paper. A file that can't be written does not keep the
// others from being written; the error names it.
func (r *Report) Write(directory string) error {
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return err
	}
	write := func(name string, to func(io.Writer) error) error {
		return writeFile(filepath.Join(directory, name), to)
	}
	errs := []error{
		write(ResultsFile, r.writeJSON),
		write("samples.csv", r.writeSamples),
		write("index.html", r.WriteHTML),
	}
	for _, c := range r.Charts() {
		errs = append(errs,
			write(c.Name+".svg", c.WriteSVG),
			write(c.Name+".png", func(w io.Writer) error { return c.WritePNG(w, false) }),
			write(c.Name+"-dark.png", func(w io.Writer) error { return c.WritePNG(w, true) }))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the report is not complete: %w", err)
	}
	return nil
}

func writeFile(path string, to func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	if err := to(w); err != nil {
		return err
	}
	return w.Flush()
}

func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *Report) writeSamples(w io.Writer) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"name", "unit", "round", "value"}}
	for _, s := range r.Samples() {
		unit := "seconds"
		if s.Rate {
			unit = "calls a second"
		}
		for i, v := range s.Values {
			rows = append(rows, []string{s.Name, unit, strconv.Itoa(i + 1), strconv.FormatFloat(v, 'g', -1, 64)})
		}
	}
	return c.WriteAll(rows)
}

// page is what the HTML page looks like, beside the inks.
const page = `body{margin:0 auto;max-width:1080px;padding:1.5rem;background:var(--i0);color:var(--i1);font:16px/1.5 system-ui,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;color:var(--i2);font-size:.9rem}dd{margin:0}
svg{max-width:100%;height:auto;display:block;margin:1.5rem 0;border:1px solid var(--i3);border-radius:6px}
pre{overflow-x:auto;font-size:.75rem;border:1px solid var(--i3);border-radius:6px;padding:1rem}
.bad{border-left:4px solid var(--i5);padding-left:1rem;font-weight:600}`

// WriteHTML writes the report as a page that needs nothing but itself.
func (r *Report) WriteHTML(w io.Writer) error {
	title := "What the boundary costs"
	var text strings.Builder
	if r.Load != nil {
		title = "A run of load"
		if err := loadtest.WriteSummary(&text, r.Load); err != nil {
			return err
		}
	}
	if r.Study != nil {
		if err := study.WriteTables(&text, r.Study); err != nil {
			return err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>texttax: %s</title>\n<style>%s\n%s</style>\n</head>\n<body>\n<h1>%s</h1>\n",
		title, chart.Style(), page, title)
	if r.Error != "" {
		fmt.Fprintf(&b, "<p class=\"bad\">Not complete: %s</p>\n", html.EscapeString(r.Error))
	}
	m := r.Manifest
	fmt.Fprint(&b, "<dl>\n")
	for _, row := range [][2]string{
		{"machine", fmt.Sprintf("%d cores of %s, %s", m.Cores, m.CPU, m.System)},
		{"program", fmt.Sprintf("%s, %s, kernel %s", m.Program, m.Go, m.Kernel)},
		{"command", strings.Join(m.Command, " ")},
		{"time", fmt.Sprintf("%s, for %.0f s", m.Began.Format("2006-01-02 15:04:05 MST"), m.Seconds)},
	} {
		fmt.Fprintf(&b, "<dt>%s</dt><dd>%s</dd>\n", row[0], html.EscapeString(row[1]))
	}
	fmt.Fprint(&b, "</dl>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for _, c := range r.Charts() {
		if err := c.WriteInline(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "<h2>In numbers</h2>\n<pre>%s</pre>\n</body>\n</html>\n", html.EscapeString(text.String()))
	return err
}
