package chart

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The fonts are read when the first text is measured, and not when the program
// starts.
var fonts = sync.OnceValues(func() (regular, bold *opentype.Font) {
	return must(opentype.Parse(goregular.TTF)), must(opentype.Parse(gobold.TTF))
})

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the fonts are part of the program
	}
	return v
}

func face(size float64, bold bool) font.Face {
	f, b := fonts()
	if bold {
		f = b
	}
	return must(opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72}))
}

// width is about how wide a text is.
func width(words string, size float64) float64 {
	return float64(font.MeasureString(face(size, false), words)) / 64
}

// sharpness is how many pixels a PNG has for a unit.
const sharpness = 2

// WritePNG writes the picture with two pixels to a unit, on light paper or on
// dark.
func (p *Picture) WritePNG(w io.Writer, dark bool) error {
	canvas := image.NewRGBA(image.Rect(0, 0, int(p.Width*sharpness), int(p.Height*sharpness)))
	colour := func(i Ink) color.RGBA {
		if dark {
			return inks[i].dark
		}
		return inks[i].light
	}
	draw.Draw(canvas, canvas.Bounds(), image.NewUniform(colour(Paper)), image.Point{}, draw.Src)
	for _, s := range p.shapes {
		ink := image.NewUniform(colour(s.ink))
		at := s.points[0]
		switch s.kind {
		case rectangle:
			to := s.points[1]
			fill(canvas, ink, point{at.x, at.y}, point{to.x, at.y}, to, point{at.x, to.y})
		case dot:
			disc(canvas, ink, at, s.size)
		case line:
			for i := 1; i < len(s.points); i++ {
				stroke(canvas, ink, s.points[i-1], s.points[i], s.size, s.dashed)
				if i+1 < len(s.points) {
					disc(canvas, ink, s.points[i], s.size/2)
				}
			}
		case text:
			f := face(s.size*sharpness, s.bold)
			wide := font.MeasureString(f, s.words)
			d := font.Drawer{Dst: canvas, Src: ink, Face: f, Dot: fixed.Point26_6{
				X: fixed.Int26_6(at.x*sharpness*64) - fixed.Int26_6(float64(wide)*s.anchor),
				Y: fixed.Int26_6(at.y * sharpness * 64),
			}}
			d.DrawString(s.words)
		}
	}
	return png.Encode(w, canvas)
}

// fill fills a polygon.
func fill(canvas *image.RGBA, ink image.Image, corners ...point) {
	low, high := corners[0], corners[0]
	for _, c := range corners {
		low = point{min(low.x, c.x), min(low.y, c.y)}
		high = point{max(high.x, c.x), max(high.y, c.y)}
	}
	x, y := math.Floor(low.x*sharpness), math.Floor(low.y*sharpness)
	r := vector.NewRasterizer(int(math.Ceil(high.x*sharpness)-x), int(math.Ceil(high.y*sharpness)-y))
	for i, c := range corners {
		px, py := float32(c.x*sharpness-x), float32(c.y*sharpness-y)
		if i == 0 {
			r.MoveTo(px, py)
		} else {
			r.LineTo(px, py)
		}
	}
	r.ClosePath()
	to := image.Rectangle{Min: image.Pt(int(x), int(y)), Max: image.Pt(int(x), int(y)).Add(r.Size())}
	r.Draw(canvas, to, ink, image.Point{})
}

func disc(canvas *image.RGBA, ink image.Image, centre point, radius float64) {
	const sides = 24
	corners := make([]point, sides)
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / sides)
		corners[i] = point{centre.x + radius*cos, centre.y + radius*sin}
	}
	fill(canvas, ink, corners...)
}

func stroke(canvas *image.RGBA, ink image.Image, from, to point, width float64, dashed bool) {
	long := math.Hypot(to.x-from.x, to.y-from.y)
	if long == 0 {
		return
	}
	dx, dy := (to.x-from.x)/long, (to.y-from.y)/long
	piece, gap := long, 0.0
	if dashed {
		piece, gap = 4, 3
	}
	for at := 0.0; at < long; at += piece + gap {
		end := min(at+piece, long)
		a, b := point{from.x + dx*at, from.y + dy*at}, point{from.x + dx*end, from.y + dy*end}
		nx, ny := -dy*width/2, dx*width/2
		fill(canvas, ink, point{a.x + nx, a.y + ny}, point{b.x + nx, b.y + ny}, point{b.x - nx, b.y - ny}, point{a.x - nx, a.y - ny})
	}
}
