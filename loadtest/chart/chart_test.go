package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"slices"
	"strings"
	"testing"
)

func bars() *Picture {
	return Stacked("Title <1>", "below & so on", []string{"encode", "compute"}, []Ink{Series, Series + 1},
		[]Bar{{"json", []float64{3, 1}}, {"octet", []float64{0, 1}}}, func(v float64) string { return "v" })
}

func pictures() map[string]*Picture {
	axis := Axis{Name: "floats", Ticks: Decades(1, 150_000), Place: Log10, Label: func(v float64) string { return "t" }}
	return map[string]*Picture{
		"stacked": bars(),
		"grouped": Grouped("Shares", "", []string{"measured", "predicted"}, []Ink{Series, Series + 6}, []Bar{{"a", []float64{1, 0.5}}, {"b", []float64{0, 0}}}),
		"lines":   Lines("Curve", "", axis, axis, []Line{{"l", Series, true, []float64{1, 10, 150_000}, []float64{2, 20, 2_000}}, {Name: "empty"}, {"one", Series + 1, false, []float64{1}, []float64{1}}}),
	}
}

func TestPicturesAreWellFormedXML(t *testing.T) {
	for name, p := range pictures() {
		var b bytes.Buffer
		if err := p.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(&b)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestSVGFollowsLightAndDark(t *testing.T) {
	var alone, inline bytes.Buffer
	if err := errors.Join(bars().WriteSVG(&alone), bars().WriteInline(&inline)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(alone.String(), "prefers-color-scheme:dark") || strings.Contains(inline.String(), "<style>") {
		t.Error("a file has the inks, and a part of a page has the page's")
	}
	if strings.Contains(alone.String(), "http://") && strings.Count(alone.String(), "http://") != 1 {
		t.Error("the picture needs the network")
	}
}

// The bars' lengths are on one axis: 3 and 1 of json, 1 of octet.
func TestBarsAreAsLongAsTheirValues(t *testing.T) {
	var lengths []float64
	for _, s := range bars().shapes {
		if s.kind == rectangle && s.words != "" {
			lengths = append(lengths, s.points[1].x-s.points[0].x)
		}
	}
	if len(lengths) != 3 || lengths[0] < 2.999*lengths[1] || lengths[0] > 3.001*lengths[1] || lengths[1] < 0.999*lengths[2] || lengths[1] > 1.001*lengths[2] {
		t.Errorf("the bars are %v long", lengths)
	}
}

func TestALogarithmicAxisGivesEachDecadeTheSameRoom(t *testing.T) {
	at := placed(Axis{Ticks: []float64{1, 1000}, Place: Log10}, 0, 300)
	for v, want := range map[float64]float64{1: 0, 10: 100, 100: 200, 1000: 300, 5000: 300} {
		if got := at(v); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%v is at %v, not %v", v, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	if got := Decades(3e-5, 0.02, 0); !slices.EqualFunc(got, []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1}, func(a, b float64) bool { return a > 0.999*b && a < 1.001*b }) {
		t.Errorf("decades %v", got)
	}
	if got := Decades(); len(got) != 2 {
		t.Errorf("decades of nothing %v", got)
	}
	for longest, want := range map[float64]int{1: 6, 44: 6, 2.2: 6, 0: 2, 9: 10} {
		got := linear(longest)
		if len(got) != want || got[len(got)-1] < longest {
			t.Errorf("an axis to %v has %v", longest, got)
		}
	}
}

func TestPNGsAreOnLightAndOnDarkPaper(t *testing.T) {
	for name, p := range pictures() {
		for _, dark := range []bool{false, true} {
			var b bytes.Buffer
			if err := p.WritePNG(&b, dark); err != nil {
				t.Fatal(err)
			}
			got, err := png.Decode(&b)
			if err != nil {
				t.Fatal(err)
			}
			if got.Bounds() != image.Rect(0, 0, int(p.Width*2), int(p.Height*2)) {
				t.Errorf("%s is %v", name, got.Bounds())
			}
			want := color.RGBA{255, 255, 255, 255}
			if dark {
				want = color.RGBA{0x16, 0x18, 0x1d, 255}
			}
			if c := color.RGBAModel.Convert(got.At(1, 1)); c != want {
				t.Errorf("%s, dark %v: the paper is %v", name, dark, c)
			}
			if inked := count(got, inkOf(Series, dark)); inked < 50 {
				t.Errorf("%s, dark %v: the first series has %d pixels", name, dark, inked)
			}
		}
	}
}

func inkOf(i Ink, dark bool) color.RGBA {
	if dark {
		return inks[i].dark
	}
	return inks[i].light
}

func count(m image.Image, c color.RGBA) int {
	n := 0
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			if color.RGBAModel.Convert(m.At(x, y)) == c {
				n++
			}
		}
	}
	return n
}
