package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"texttax/loadtest/report"
)

type reportCommand struct {
	A string `arg:"" help:"The results.json that load or compare has written, or its directory."`
	B string `arg:"" help:"The one to compare it with."`
}

// Help is shown by texttax report --help.
func (*reportCommand) Help() string {
	return `Compares two results of load or of compare: the ratio of each figure, and the interval that it is in with 95 % confidence.

  texttax report before/results.json after/results.json`
}

// Run compares.
func (c *reportCommand) Run(out streams) error {
	var reports [2]*report.Report
	for i, path := range []string{c.A, c.B} {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, report.ResultsFile)
		}
		var err error
		if reports[i], err = report.Read(path); err != nil {
			return err
		}
	}
	return report.WriteDifferences(out.stdout, reports[0], reports[1])
}

// writeReport writes a report to a directory, if one is named. failure is why
// the report is not complete.
func writeReport(directory string, out streams, r *report.Report, began time.Time, failure error) error {
	if directory == "" {
		return nil
	}
	r.Manifest = report.NewManifest(append([]string{"texttax"}, os.Args[1:]...), began)
	if failure != nil {
		r.Error = failure.Error()
	}
	if err := r.Write(directory); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out.stderr, "the report is in %s\n", filepath.Join(directory, "index.html"))
	return err
}
