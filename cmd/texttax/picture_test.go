//go:build prometheus

package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/kernel/gbm42"
	"texttax/loadtest/chart"
	"texttax/middleware"
)

var pictureFile = flag.String("picture", "", "draw the dashboard's first panels to this SVG file")

// TestPictureOfTheDashboard draws what the first two panels of the dashboard
// get from a real Prometheus, under load with the whole demo series. It runs if
// it is told where to.
func TestPictureOfTheDashboard(t *testing.T) {
	if *pictureFile == "" {
		t.Skip("nobody wants a picture; see -picture")
	}
	address := freeAddress(t)
	serveAt(t, address)
	d, generator := newDriver(t, "http://"+address)
	d.series = gbm42.Close()
	p := startPrometheus(t, map[string]string{"texttax": address, "load": generator})
	eventually(t, "there are some scrapes", func() bool {
		return p.number(t, `count_over_time(texttax_requests_total{endpoint="echo",code="200"}[1m]) > 3`) > 3
	})
	d.drive(t, 20*time.Second)
	time.Sleep(4 * scrapeInterval)
	file, err := os.Create(*pictureFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := p.phases(t).WriteSVG(file); err != nil {
		t.Fatal(err)
	}
}

// phases draws where a request's time goes, a bar for each format with its tax.
func (s *scraper) phases(t *testing.T) *chart.Picture {
	t.Helper()
	spent := s.panel(t, "Where a request's time goes", time.Minute)[0]
	taxes := s.panel(t, "Text tax: times the cost of octets", time.Minute)[0]
	var series []string
	var inks []chart.Ink
	for i, phase := range middleware.Phases() {
		series, inks = append(series, phase.String()), append(inks, chart.Series+chart.Ink(i))
	}
	var bars []chart.Bar
	for _, format := range encoding.Names() {
		bar := chart.Bar{Name: fmt.Sprintf("%s, taxed %.3gx", format, taxes["echo "+format])}
		for _, phase := range middleware.Phases() {
			bar.Parts = append(bar.Parts, 1e3*spent[format+" "+phase.String()])
		}
		bars = append(bars, bar)
	}
	return chart.Stacked("Where a request's time goes", "mean of a request, in the server; the tax is the decode and encode of an echo over those of octets", series, inks, bars,
		func(ms float64) string { return fmt.Sprintf("%.3g ms", ms) })
}
