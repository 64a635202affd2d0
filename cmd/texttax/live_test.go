//go:build chromium

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"texttax/encoding"
	"texttax/middleware"
)

// browser is a headless Chromium that notes what its page asks for and what it
// complains about.
type browser struct {
	ctx context.Context

	mu         sync.Mutex
	asked      []string
	complaints []string
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: it is Debian's package chromium", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1100, 1400),
		chromedp.NoSandbox, // root has none
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stop()
	})
	b := &browser{ctx: ctx}
	must(t, chromedp.Do(ctx)) // without a timeout, which would be the browser's
	must(t, chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked = append(b.asked, e.Request.URL)
		case *log.EventEntryAdded:
			b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.complaints = append(b.complaints, fmt.Sprint(e.Type))
		}
	}))
	instruct(t, b, network.Enable, network.EnableParams{})
	instruct(t, b, log.Enable, cdp.Empty{})
	instruct(t, b, runtime.Enable, cdp.Empty{})
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// perform runs an action in the page, and returns its value.
func perform[T any](t *testing.T, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	must(t, err)
	return v
}

// instruct sends a command of the DevTools protocol.
func instruct[P, R any](t *testing.T, b *browser, c cdp.Command[P, R], params P) {
	t.Helper()
	perform(t, b, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, c, params)
	})
}

func (b *browser) do(t *testing.T, action chromedp.Action[chromedp.Void]) {
	t.Helper()
	perform(t, b, action)
}

// value evaluates an expression of JavaScript.
func value[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	return perform(t, b, chromedp.Evaluate[T](expression))
}

// picture is what the page has drawn.
type picture struct {
	Status string
	Text   string
	Rows   map[string]struct {
		Widths     map[string]float64 // of the bar's segments
		Time       string
		Cells      []string
		Columns    int      // of the last minute
		Attributes []string // all numbers of the minute's drawing
		Label      string
	}
}

const readPicture = `(() => {
	const rows = {};
	for (const row of document.querySelectorAll("#bars .row")) {
		const format = row.dataset.format, widths = {}, attributes = [];
		for (const r of row.querySelectorAll("rect")) widths[r.dataset.phase] = Number(r.getAttribute("width"));
		const minute = document.querySelector('#minutes [data-format="' + format + '"]');
		for (const e of minute.querySelectorAll("rect")) for (const a of ["x", "y", "width", "height"]) attributes.push(e.getAttribute(a));
		attributes.push(...minute.querySelector("polyline").getAttribute("points").split(/[ ,]/).filter(p => p));
		rows[format] = {
			widths, attributes, time: row.querySelector(".number").textContent, label: row.querySelector("svg").getAttribute("aria-label"),
			cells: [...document.querySelectorAll('#rows [data-format="' + format + '"] td')].map(c => c.textContent),
			columns: minute.querySelectorAll("rect").length,
		};
	}
	return {status: document.getElementById("status").textContent, text: document.body.innerText, rows};
})()`

// look reads the page, and checks what must be so at any time.
func (b *browser) look(t *testing.T) picture {
	t.Helper()
	p := value[picture](t, b, readPicture)
	if len(p.Rows) != len(encoding.Names()) {
		t.Fatalf("%d formats are drawn", len(p.Rows))
	}
	for _, no := range []string{"NaN", "Infinity", "undefined", "null"} {
		if strings.Contains(p.Text, no) {
			t.Errorf("the page says %s:\n%s", no, p.Text)
		}
	}
	for format, row := range p.Rows {
		for phase, width := range row.Widths {
			if !(width >= 0 && width <= 1000.001) {
				t.Errorf("%s: %s is %v wide", format, phase, width)
			}
		}
		for _, a := range row.Attributes {
			if v, err := strconv.ParseFloat(a, 64); err != nil || v < -2 || v > 100.001 {
				t.Errorf("%s: the last minute is drawn to %q", format, a)
			}
		}
	}
	return p
}

// await looks at the page until something is so.
func (b *browser) await(t *testing.T, what string, is func(picture) bool) (p picture) {
	t.Helper()
	eventually(t, what, func() bool { p = b.look(t); return is(p) })
	return p
}

func width(row map[string]float64) float64 {
	sum := 0.0
	for _, w := range row {
		sum += w
	}
	return sum
}

func TestTheLivePageDrawsWhatTheClientMeasures(t *testing.T) {
	address := freeAddress(t)
	url := "http://" + address
	kill := serveAt(t, address)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(url+"/live"))
	b.await(t, "nothing is drawn before the first request", func(p picture) bool {
		return p.Status == "" && p.Rows["json"].Time == "no requests"
	})

	d, _ := newDriver(t, url)
	d.drive(t, 4*time.Second)
	time.Sleep(2500 * time.Millisecond) // two readings
	p := b.look(t)
	b.keep(t, "light.png")
	spent := func(format, phase string) float64 {
		return total64(d.spent["echo "+format+" "+phase]) + total64(d.spent["sweep "+format+" "+phase])
	}
	tax := func(format string) float64 {
		return (spent(format, "decode") + spent(format, "encode")) / float64(len(d.wall["echo "+format])+len(d.wall["sweep "+format]))
	}
	for _, format := range encoding.Names() {
		row := p.Rows[format]
		for _, phase := range []string{"transit_in", "decode", "queue", "encode"} {
			got, want := row.Widths[phase]/row.Widths["compute"], spent(format, phase)/spent(format, "compute")
			if !within(got, want, 0.1) {
				t.Errorf("%s: %s is drawn %v times as wide as compute, and takes %v times as long", format, phase, got, want)
			}
		}
		ratio, err := strconv.ParseFloat(strings.TrimSuffix(row.Cells[5], "x"), 64)
		if want := tax(format) / tax("octet"); err != nil || !within(ratio, want, 0.1) {
			t.Errorf("%s: the tax is %q that of octets, and %v by the driver", format, row.Cells[5], want)
		}
		if rate, err := strconv.ParseFloat(row.Cells[0], 64); err != nil || rate <= 0 {
			t.Errorf("%s: %q requests a second", format, row.Cells[0])
		}
		if row.Columns < 2*4 {
			t.Errorf("%s: %d columns in the last minute", format, row.Columns)
		}
		if !strings.HasPrefix(row.Label, format+": ") || !strings.Contains(row.Label, "decode ") {
			t.Errorf("%s: a screen reader hears %q", format, row.Label)
		}
	}
	if std := width(p.Rows["json-std"].Widths); std < 999 || width(p.Rows["octet"].Widths) > std/2 {
		t.Errorf("the bars are %v wide for json-std and %v for octet", std, width(p.Rows["octet"].Widths))
	}

	b.keyboard(t, d)
	b.colors(t)

	// The server goes, and comes back with all counters at 0.
	b.mu.Lock()
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
	b.mu.Unlock()
	kill()
	b.await(t, "the page says that the server is gone", func(p picture) bool { return strings.Contains(p.Status, "does not answer") })
	serveAt(t, address)
	client.CloseIdleConnections()
	b.await(t, "the page goes on", func(p picture) bool { return p.Status == "" && p.Rows["json"].Time == "no requests" })
	d.drive(t, 500*time.Millisecond)
	b.await(t, "it draws again", func(p picture) bool { return p.Rows["json"].Time != "no requests" })

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range b.asked {
		if asked != url+"/live" && asked != url+"/metrics" && asked != url+"/favicon.ico" {
			t.Errorf("the page asks for %s", asked)
		}
	}
}

// keyboard uses the page with nothing but keys.
func (b *browser) keyboard(t *testing.T, d *driver) {
	t.Helper()
	tabTo := func(id string) {
		t.Helper()
		for range 6 {
			b.do(t, chromedp.KeyEvent(kb.Tab))
			if value[string](t, b, "document.activeElement.id") == id {
				if outline := value[string](t, b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
					t.Errorf("nobody sees that %s has the focus: outline %q", id, outline)
				}
				return
			}
		}
		t.Errorf("the tabulator does not reach %s", id)
	}
	all := b.look(t)
	tabTo("endpoint")
	b.do(t, chromedp.KeyEvent("s")) // of sweep
	if chosen := value[string](t, b, `document.getElementById("endpoint").value`); chosen != "sweep" {
		t.Errorf("the endpoint %q is chosen", chosen)
	}
	sweeps := b.await(t, "the sweeps are drawn by themselves", func(p picture) bool { return p.Rows["json"].Cells[1] != all.Rows["json"].Cells[1] })
	for format, row := range sweeps.Rows {
		key := "sweep " + format
		want := meanOf(d.spent[key+" decode"]) / meanOf(d.spent[key+" compute"])
		if got := row.Widths["decode"] / row.Widths["compute"]; !within(got, want, 0.1) {
			t.Errorf("%s: decode of sweeps is drawn %v times as wide as compute, and takes %v times as long", format, got, want)
		}
	}
	tabTo("shares")
	b.do(t, chromedp.KeyEvent(" "))
	for format, row := range b.look(t).Rows {
		if w := width(row.Widths); w < 999 {
			t.Errorf("%s: the shares are %v wide together", format, w)
		}
	}
	tabTo("pause")
	b.do(t, chromedp.KeyEvent(kb.Enter))
	paused := b.await(t, "it pauses", func(p picture) bool { return p.Status == "paused" })
	if !value[bool](t, b, `document.getElementById("pause").getAttribute("aria-pressed") === "true"`) {
		t.Error("a screen reader does not hear that it pauses")
	}
	d.drive(t, 300*time.Millisecond)
	time.Sleep(1500 * time.Millisecond)
	if now := b.look(t); now.Text != paused.Text {
		t.Error("it changes while it pauses")
	}
	b.do(t, chromedp.KeyEvent(" "))
	b.await(t, "it goes on", func(p picture) bool { return p.Status == "" && p.Text != paused.Text })
}

// colors looks at the page by day and by night.
func (b *browser) colors(t *testing.T) {
	t.Helper()
	for scheme, page := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(21, 21, 21)"} {
		instruct(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		if got := value[string](t, b, "getComputedStyle(document.body).backgroundColor"); got != page {
			t.Errorf("%s: the page is %s", scheme, got)
		}
		fills := map[string]string{}
		for _, p := range middleware.Phases() {
			fill := value[string](t, b, `getComputedStyle(document.querySelector("#bars .`+p.String()+`")).fill`)
			if other, taken := fills[fill]; taken || fill == page || fill == "rgb(0, 0, 0)" {
				t.Errorf("%s: %s is drawn in %s, as %s is", scheme, p, fill, other)
			}
			fills[fill] = p.String()
		}
		b.keep(t, scheme+"-sweep.png")
	}
}

// keep stores a picture of the page for those who run the test with
// -artifacts.
func (b *browser) keep(t *testing.T, name string) {
	t.Helper()
	png := perform(t, b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheLivePageIsWhereTheMetricsAre(t *testing.T) {
	s := start(t, "--admin-listen", "127.0.0.1:0", "--log-level", "error")
	ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(s.admin+"/live"))
	b.await(t, "it reads the metrics of the admin address", func(p picture) bool { return p.Status == "" })
	ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil)
	b.await(t, "it draws the request", func(p picture) bool { return p.Rows["json"].Time != "no requests" })
	// The browser's connections would be waited for.
	b.do(t, chromedp.Navigate("about:blank"))
}
