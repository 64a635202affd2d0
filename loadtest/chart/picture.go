// Package chart draws the few kinds of charts that a report needs, as SVG that
// follows its reader's choice of light or dark, and as PNG.
package chart

import (
	"fmt"
	"html"
	"image/color"
	"io"
	"strings"
)

// An Ink is the role of a colour: which colour it is depends on the paper.
type Ink uint8

// The inks. Series has as many as there are series that can be told apart.
const (
	Paper Ink = iota
	Text
	Faint // of what is beside the point
	Grid
	Series
)

// SeriesInks is how many inks there are from Series on.
const SeriesInks = 8

// An Ink's colours on light and on dark paper.
var inks = [Series + SeriesInks]struct{ light, dark color.RGBA }{
	Paper: {rgb(0xffffff), rgb(0x16181d)},
	Text:  {rgb(0x1c1e21), rgb(0xe6e8eb)},
	Faint: {rgb(0x62676e), rgb(0x9aa1aa)},
	Grid:  {rgb(0xdfe2e6), rgb(0x34383f)},

	Series + 0: {rgb(0x0b64c0), rgb(0x5aa9ff)}, // blue
	Series + 1: {rgb(0xd9590b), rgb(0xff9a57)}, // orange
	Series + 2: {rgb(0x1b8a5a), rgb(0x4fd19b)}, // green
	Series + 3: {rgb(0xb03a8c), rgb(0xf08bd0)}, // magenta
	Series + 4: {rgb(0xc79a00), rgb(0xf2cf4a)}, // yellow
	Series + 5: {rgb(0x5d4bb5), rgb(0xa99bff)}, // violet
	Series + 6: {rgb(0x9aa3ad), rgb(0x6d7680)}, // grey
	Series + 7: {rgb(0x3fa7c4), rgb(0x7fdcf2)}, // cyan
}

func rgb(v uint32) color.RGBA { return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255} }

// A Picture is a drawing of a given size, in units of a pixel.
type Picture struct {
	Width, Height float64
	Title         string // what it shows, for those who can't see it
	shapes        []shape
}

type kind uint8

const (
	rectangle kind = iota
	line
	dot
	text
)

type point struct{ x, y float64 }

type shape struct {
	kind   kind
	ink    Ink
	points []point // corners, ends, or the one place
	size   float64 // of a line's width, a dot's radius, a text's height
	anchor float64 // of a text: 0 begins at its place, 1 ends there
	bold   bool
	dashed bool
	words  string // of a text; of another shape, what it stands for
}

func (p *Picture) add(s shape) { p.shapes = append(p.shapes, s) }

func (p *Picture) rectangle(ink Ink, x, y, w, h float64, words string) {
	p.add(shape{kind: rectangle, ink: ink, points: []point{{x, y}, {x + w, y + h}}, words: words})
}

func (p *Picture) line(ink Ink, width float64, dashed bool, points ...point) {
	p.add(shape{kind: line, ink: ink, points: points, size: width, dashed: dashed})
}

func (p *Picture) dot(ink Ink, x, y, radius float64, words string) {
	p.add(shape{kind: dot, ink: ink, points: []point{{x, y}}, size: radius, words: words})
}

func (p *Picture) text(ink Ink, x, y, size, anchor float64, bold bool, words string) {
	p.add(shape{kind: text, ink: ink, points: []point{{x, y}}, size: size, anchor: anchor, bold: bold, words: words})
}

// Style returns the rules of CSS that give the inks their colours: those of
// light paper, and those of dark where the reader prefers it.
func Style() string {
	var light, dark strings.Builder
	for i, c := range inks {
		fmt.Fprintf(&light, "--i%d:%s;", i, hex(c.light))
		fmt.Fprintf(&dark, "--i%d:%s;", i, hex(c.dark))
	}
	return fmt.Sprintf(":root{%s}@media(prefers-color-scheme:dark){:root{%s}}", &light, &dark)
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// WriteSVG writes the picture as a file of its own.
func (p *Picture) WriteSVG(w io.Writer) error { return p.svg(w, Style()) }

// WriteInline writes the picture as a part of a page that has Style.
func (p *Picture) WriteInline(w io.Writer) error { return p.svg(w, "") }

func (p *Picture) svg(w io.Writer, style string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="%s" font-family="system-ui,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">`,
		p.Width, p.Height, p.Width, p.Height, html.EscapeString(p.Title))
	if style != "" {
		fmt.Fprintf(&b, "<style>%s</style>", style)
	}
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="var(--i%d)"/>`, p.Width, p.Height, Paper)
	for _, s := range p.shapes {
		at := s.points[0]
		tip := ""
		if s.words != "" {
			tip = "<title>" + html.EscapeString(s.words) + "</title>"
		}
		switch s.kind {
		case rectangle:
			to := s.points[1]
			fmt.Fprintf(&b, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="var(--i%d)">%s</rect>`, at.x, at.y, to.x-at.x, to.y-at.y, s.ink, tip)
		case dot:
			fmt.Fprintf(&b, `<circle cx="%.2f" cy="%.2f" r="%.2f" fill="var(--i%d)">%s</circle>`, at.x, at.y, s.size, s.ink, tip)
		case line:
			dash := ""
			if s.dashed {
				dash = ` stroke-dasharray="4 3"`
			}
			fmt.Fprintf(&b, `<polyline fill="none" stroke="var(--i%d)" stroke-width="%g"%s points="`, s.ink, s.size, dash)
			for _, q := range s.points {
				fmt.Fprintf(&b, "%.2f,%.2f ", q.x, q.y)
			}
			b.WriteString(`"/>`)
		case text:
			weight := ""
			if s.bold {
				weight = ` font-weight="600"`
			}
			anchor := map[float64]string{0: "start", 0.5: "middle", 1: "end"}[s.anchor]
			fmt.Fprintf(&b, `<text x="%.2f" y="%.2f" font-size="%g" text-anchor="%s" fill="var(--i%d)"%s>%s</text>`, at.x, at.y, s.size, anchor, s.ink, weight, html.EscapeString(s.words))
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
