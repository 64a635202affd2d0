//go:build prometheus

package main

import (
	"flag"
	"fmt"
	"image/color"
	"math"
	"os"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"texttax/encoding"
	"texttax/grafana"
	"texttax/kernel/gbm42"
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
	phases, taxes := p.phasePlot(t), p.taxPlot(t)

	canvas := vgsvg.New(22*vg.Centimeter, 9*vg.Centimeter)
	for i, drawn := range plot.Align([][]*plot.Plot{{phases, taxes}}, draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 12}, draw.New(canvas))[0] {
		[]*plot.Plot{phases, taxes}[i].Draw(drawn)
	}
	file, err := os.Create(*pictureFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := canvas.WriteTo(file); err != nil {
		t.Fatal(err)
	}
}

// shade reads a color such as #e02f44.
func shade(t *testing.T, text string) color.Color {
	t.Helper()
	c := color.NRGBA{A: 255}
	if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		t.Fatal(err)
	}
	return c
}

func newPlot(title, unit string) *plot.Plot {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text = title, unit
	p.Y.Tick.LineStyle.Width = 0
	return p
}

// phasePlot stacks the phases of a request, a bar for each format.
func (s *scraper) phasePlot(t *testing.T) *plot.Plot {
	t.Helper()
	values := s.panel(t, "Where a request's time goes", time.Minute)[0]
	p := newPlot("Where a request's time goes", "ms a request")
	var names []string
	for i := range encoding.Names() {
		names = append(names, encoding.Names()[len(encoding.Names())-1-i]) // the first one on top
	}
	var below *plotter.BarChart
	for _, phase := range middleware.Phases() {
		var lengths plotter.Values
		all := 0.0
		for _, format := range names {
			ms := 1e3 * values[format+" "+phase.String()]
			lengths = append(lengths, ms)
			all += ms
		}
		if all == 0 {
			continue
		}
		bars, err := plotter.NewBarChart(lengths, vg.Points(18))
		if err != nil {
			t.Fatal(err)
		}
		bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, shade(t, grafana.PhaseColors[phase])
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(phase.String(), bars)
	}
	p.NominalY(names...)
	p.Legend.Top, p.Legend.YOffs = false, vg.Points(4)
	return p
}

// taxPlot has the tax of echoes against octets, by its logarithm: a bar can't
// begin at 0 on a logarithmic axis.
func (s *scraper) taxPlot(t *testing.T) *plot.Plot {
	t.Helper()
	values := s.panel(t, "Text tax: times the cost of octets", time.Minute)[0]
	p := newPlot("Text tax of an echo", "times the decode and encode of octets")
	var names []string
	var ratios plotter.Values
	labels := plotter.XYLabels{}
	for i := range encoding.Names() {
		format := encoding.Names()[len(encoding.Names())-1-i]
		ratio := values["echo "+format]
		names, ratios = append(names, format), append(ratios, math.Log10(max(1, ratio)))
		labels.XYs = append(labels.XYs, plotter.XY{X: ratios[i], Y: float64(i)})
		text := fmt.Sprintf(" %.0fx", ratio)
		if ratio > 1 && ratio < 10 {
			text = fmt.Sprintf(" %.1fx", ratio)
		}
		labels.Labels = append(labels.Labels, text)
	}
	bars, err := plotter.NewBarChart(ratios, vg.Points(18))
	if err != nil {
		t.Fatal(err)
	}
	bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, shade(t, grafana.PhaseColors[middleware.Decode])
	texts, err := plotter.NewLabels(labels)
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts.TextStyle {
		texts.TextStyle[i].Font.Variant, texts.TextStyle[i].YAlign = plot.DefaultFont.Variant, draw.YCenter
	}
	p.Add(bars, texts)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, 5.2
	var ticks plot.ConstantTicks
	for power, text := range []string{"1", "10", "100", "1,000", "10,000", "100,000"} {
		ticks = append(ticks, plot.Tick{Value: float64(power), Label: text})
	}
	p.X.Tick.Marker = ticks
	return p
}
