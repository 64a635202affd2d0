package chart

import (
	"fmt"
	"math"
	"strconv"
)

// Sizes that all charts share.
const (
	chartWidth = 860
	margin     = 20
	titleSize  = 16
	labelSize  = 12
	leading    = 20 // from one line of text to the next
)

// begin starts a picture with a title and what it says below, and returns
// where the rest begins.
func begin(title, subtitle string) (*Picture, float64) {
	p := &Picture{Width: chartWidth, Title: title}
	p.text(Text, margin, margin+titleSize, titleSize, 0, true, title)
	p.text(Faint, margin, margin+titleSize+leading, labelSize, 0, false, subtitle)
	return p, margin + titleSize + leading + 16
}

// legend writes the names of series in their inks, and returns where the rest
// begins.
func (p *Picture) legend(y float64, names []string, inks []Ink) float64 {
	x := float64(margin)
	for i, name := range names {
		w := width(name, labelSize)
		if x+w+30 > p.Width-margin && x > margin {
			x, y = margin, y+leading
		}
		p.rectangle(inks[i], x, y, 12, 12, "")
		p.text(Text, x+17, y+10.5, labelSize, 0, false, name)
		x += w + 38
	}
	return y + leading + 10
}

func widest(names []string) float64 {
	w := 0.0
	for _, n := range names {
		w = max(w, width(n, labelSize))
	}
	return 1.08 * w // other readers' fonts are wider
}

// A Bar is one row of a bar chart.
type Bar struct {
	Name  string
	Parts []float64 // by series, not negative
}

// Stacked draws horizontal bars whose parts are put one after the other, on
// one linear axis. label writes a value with its unit.
func Stacked(title, subtitle string, series []string, inks []Ink, bars []Bar, label func(float64) string) *Picture {
	p, y := begin(title, subtitle)
	y = p.legend(y, series, inks)
	names, longest := make([]string, len(bars)), 0.0
	totals := make([]float64, len(bars))
	for i, b := range bars {
		names[i] = b.Name
		for _, v := range b.Parts {
			totals[i] += v
		}
		longest = max(longest, totals[i])
	}
	const height, pitch = 20.0, 30.0
	left := margin + widest(names) + 12
	right := p.Width - margin - 76
	p.Height = y + float64(len(bars))*pitch + 40
	axis := linear(longest)
	scale := (right - left) / axis[len(axis)-1]
	bottom := y + float64(len(bars))*pitch
	for _, v := range axis {
		x := left + v*scale
		p.line(Grid, 1, false, point{x, y - 6}, point{x, bottom})
		p.text(Faint, x, bottom+18, labelSize, 0.5, false, label(v))
	}
	for i, b := range bars {
		x, top := left, y+float64(i)*pitch
		p.text(Text, left-8, top+height/2+4, labelSize, 1, false, b.Name)
		for s, v := range b.Parts {
			if v*scale > 0.05 {
				p.rectangle(inks[s], x, top, v*scale, height, fmt.Sprintf("%s, %s: %s", b.Name, series[s], label(v)))
			}
			x += v * scale
		}
		p.text(Text, x+6, top+height/2+4, labelSize, 0, false, label(totals[i]))
	}
	return p
}

// Grouped draws horizontal bars side by side in each row, on one axis from 0
// to 1.
func Grouped(title, subtitle string, series []string, inks []Ink, rows []Bar) *Picture {
	p, y := begin(title, subtitle)
	y = p.legend(y, series, inks)
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	height := 11.0
	pitch := height*float64(len(series)) + 9
	left := margin + widest(names) + 12
	right := p.Width - margin - 56
	bottom := y + float64(len(rows))*pitch
	p.Height = bottom + 40
	for v := 0.0; v <= 1; v += 0.25 {
		x := left + v*(right-left)
		p.line(Grid, 1, false, point{x, y - 6}, point{x, bottom})
		p.text(Faint, x, bottom+18, labelSize, 0.5, false, strconv.Itoa(int(100*v))+" %")
	}
	for i, r := range rows {
		top := y + float64(i)*pitch
		p.text(Text, left-8, top+pitch/2-1, labelSize, 1, false, r.Name)
		for s, v := range r.Parts {
			if math.IsNaN(v) {
				continue
			}
			at := top + float64(s)*height
			p.rectangle(inks[s], left, at, max(1, v*(right-left)), height-2, fmt.Sprintf("%s, %s: %s", r.Name, series[s], percent(v)))
			p.text(Faint, left+v*(right-left)+5, at+height-2, 10, 0, false, percent(v))
		}
	}
	return p
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// A Line is a series of a line chart.
type Line struct {
	Name   string
	Ink    Ink
	Dashed bool
	X, Y   []float64
}

// An Axis says how a line chart's values are placed and written.
type Axis struct {
	Name  string
	Ticks []float64             // in order; the first and the last are the ends
	Place func(float64) float64 // monotonous; nil is linear
	Label func(float64) string
}

// Log10 places values by their logarithm.
func Log10(v float64) float64 { return math.Log10(v) }

// Decades are the powers of ten that take in all values.
func Decades(values ...float64) []float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return []float64{1, 10}
	}
	var ticks []float64
	for e := math.Floor(math.Log10(low)); ; e++ {
		ticks = append(ticks, math.Pow(10, e))
		if len(ticks) > 1 && ticks[len(ticks)-1] >= high {
			return ticks
		}
	}
}

// Lines draws lines with a dot at each value.
func Lines(title, subtitle string, x, y Axis, lines []Line) *Picture {
	p, top := begin(title, subtitle)
	names, inks := make([]string, len(lines)), make([]Ink, len(lines))
	for i, l := range lines {
		names[i], inks[i] = l.Name, l.Ink
	}
	top = p.legend(top, names, inks) + leading
	labels := make([]string, len(y.Ticks))
	for i, v := range y.Ticks {
		labels[i] = y.Label(v)
	}
	left, right := margin+widest(labels)+10, p.Width-margin-16
	bottom := top + 320
	p.Height = bottom + 56
	across, up := placed(x, left, right), placed(y, bottom, top)
	p.text(Faint, margin, top-12, labelSize, 0, false, y.Name)
	for i, v := range y.Ticks {
		p.line(Grid, 1, false, point{left, up(v)}, point{right, up(v)})
		p.text(Faint, left-8, up(v)+4, labelSize, 1, false, labels[i])
	}
	for _, v := range x.Ticks {
		p.line(Grid, 1, false, point{across(v), top}, point{across(v), bottom})
		p.text(Faint, across(v), bottom+18, labelSize, 0.5, false, x.Label(v))
	}
	p.text(Faint, (left+right)/2, bottom+40, labelSize, 0.5, false, x.Name)
	for _, l := range lines {
		points := make([]point, len(l.X))
		for i := range l.X {
			points[i] = point{across(l.X[i]), up(l.Y[i])}
		}
		if len(points) > 1 {
			p.line(l.Ink, 2, l.Dashed, points...)
		}
		for i, q := range points {
			p.dot(l.Ink, q.x, q.y, 2.6, fmt.Sprintf("%s, %s: %s", l.Name, x.Label(l.X[i]), y.Label(l.Y[i])))
		}
	}
	return p
}

// placed returns where on the paper a value of an axis is.
func placed(a Axis, from, to float64) func(float64) float64 {
	place := a.Place
	if place == nil {
		place = func(v float64) float64 { return v }
	}
	low, high := place(a.Ticks[0]), place(a.Ticks[len(a.Ticks)-1])
	return func(v float64) float64 {
		return from + (to-from)*min(max((place(v)-low)/(high-low), 0), 1)
	}
}

// linear returns round values from 0 to above the longest.
func linear(longest float64) []float64 {
	if !(longest > 0) {
		return []float64{0, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(longest)))
	switch n := longest / step; {
	case n < 1.5:
		step /= 5
	case n < 3:
		step /= 2
	}
	ticks := []float64{0}
	for i := 1.0; ticks[len(ticks)-1] < longest; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}
