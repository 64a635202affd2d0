package middleware

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// sleeps are what a request spends in each phase in these tests. Time is that
// of a synctest bubble, so that it passes exactly as it is slept.
func sleeps() map[Phase]time.Duration {
	all := map[Phase]time.Duration{}
	for i, p := range Phases() {
		all[p] = time.Duration(1<<i) * time.Millisecond
	}
	return all
}

func TestEachPhaseGetsTheTimeThatIsSpentInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.Start(Decode)
		total := time.Duration(0)
		for _, p := range Phases() {
			around := c.Enter(p)
			time.Sleep(sleeps()[p])
			total += sleeps()[p]
			c.Enter(around)
			time.Sleep(time.Millisecond) // back in decode
			total += time.Millisecond
		}
		c.Stop()
		for _, p := range Phases() {
			want := sleeps()[p]
			if p == Decode {
				want += 8 * time.Millisecond
			}
			if got, entered := c.Spent(p); got != want || !entered {
				t.Errorf("%s: %v, not %v", p, got, want)
			}
		}
		if c.Wall() != total {
			t.Errorf("the phases last %v, the request %v", total, c.Wall())
		}
	})
}

func TestServerTimingHasThePhasesThatWereEnteredInMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.Start(TransitIn)
		time.Sleep(1500 * time.Microsecond)
		c.Enter(Decode)
		time.Sleep(42 * time.Nanosecond)
		c.Enter(Encode)
		time.Sleep(2 * time.Second)
		if got, want := c.ServerTiming(), "transit_in;dur=1.500000, decode;dur=0.000042, encode;dur=2000.000000"; got != want {
			t.Errorf("%s, not %s", got, want)
		}
		c.Enter(TransitOut)
		time.Sleep(time.Second)
		c.Stop()
		if strings.Contains(c.ServerTiming(), "transit_out") {
			t.Error("transit_out can't be known when the header is sent")
		}
	})
}

// newTracked returns a handler with the middleware around serve, and the
// metrics' registry.
func newTracked(serve http.HandlerFunc) (http.Handler, *prometheus.Registry) {
	return newTrackedAs(nil, serve)
}

func newTrackedAs(possible func(string, Phase) bool, serve http.HandlerFunc) (http.Handler, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry, Labels{
		Possible:   possible,
		Endpoints:  map[string]string{"/work": "work", "/quick": "quick"},
		Timed:      map[string][]Phase{"work": Phases()},
		Formats:    []string{"json", "octet"},
		Statuses:   []int{200, 404, 500, StatusClientGone},
		Rejections: []string{"too-much"},
	})
	log := slog.New(slog.DiscardHandler)
	r := chi.NewRouter()
	r.Use(Track(metrics, NewRequestLog(log)), Recover(log, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	r.HandleFunc("/work", serve)
	r.HandleFunc("/quick", func(http.ResponseWriter, *http.Request) {})
	return r, registry
}

// histograms returns the phase histograms by their label values.
func histograms(t *testing.T, registry *prometheus.Registry) map[string]*dto.Histogram {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dto.Histogram{}
	for _, f := range families {
		if f.GetName() != PhaseMetric {
			continue
		}
		for _, m := range f.GetMetric() {
			key := ""
			for _, l := range m.GetLabel() {
				key += "/" + l.GetValue()
			}
			found[key] = m.GetHistogram()
		}
	}
	return found
}

func TestSleepsLandInTheSeriesOfTheirPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, registry := newTracked(func(w http.ResponseWriter, r *http.Request) {
			ex := From(w)
			ex.RequestFormat, ex.AnswerFormat = "json", "octet"
			for _, p := range Phases() {
				ex.Clock.Enter(p)
				time.Sleep(sleeps()[p])
			}
			w.WriteHeader(200)
		})
		for range 3 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/work", nil))
		}
		for key, hist := range histograms(t, registry) {
			want, count := 0.0, uint64(0)
			for _, p := range Phases() {
				format := "json"
				if p >= Encode {
					format = "octet"
				}
				if key == "/work/"+format+"/"+p.String() {
					want, count = 3*sleeps()[p].Seconds(), 3
				}
			}
			if got := hist.GetSampleSum(); math.Abs(got-want) > 1e-12 || hist.GetSampleCount() != count {
				t.Errorf("%s: %v s in %d requests, not %v in %d", key, got, hist.GetSampleCount(), want, count)
			}
		}
	})
}

func TestAPhaseThatNobodyThoughtPossibleIsCountedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noQueue := func(_ string, p Phase) bool { return p != Queue }
		h, registry := newTrackedAs(noQueue, func(w http.ResponseWriter, _ *http.Request) {
			From(w).RequestFormat = "json"
			From(w).Clock.Enter(Queue)
			time.Sleep(time.Second)
		})
		if _, there := histograms(t, registry)["/work/json/queue"]; there {
			t.Error("it has a series before it is seen")
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/work", nil))
		if got := histograms(t, registry)["/work/json/queue"]; got.GetSampleCount() != 1 || got.GetSampleSum() != 1 {
			t.Errorf("%v s in %d requests", got.GetSampleSum(), got.GetSampleCount())
		}
	})
}

func TestShortAndLongPhasesAreReadBackWithinAFactorOfTwo(t *testing.T) {
	for _, truth := range []time.Duration{200 * time.Microsecond, 12 * time.Second, time.Microsecond * 3 / 2, 90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h, registry := newTracked(func(w http.ResponseWriter, _ *http.Request) {
				ex := From(w)
				ex.RequestFormat = "json"
				ex.Clock.Enter(Compute)
				time.Sleep(truth)
			})
			for range 5 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/work", nil))
			}
			// The median as PromQL's histogram_quantile has it: by straight
			// lines within the bucket.
			lower, below := 0.0, uint64(0)
			for _, b := range histograms(t, registry)["/work/json/compute"].GetBucket() {
				if n := b.GetCumulativeCount(); n >= 3 {
					median := lower + (b.GetUpperBound()-lower)*(2.5-float64(below))/float64(n-below)
					if ratio := median / truth.Seconds(); math.IsInf(median, 0) || ratio < 0.5 || ratio > 2 {
						t.Errorf("%v is read back as %v s", truth, median)
					}
					return
				}
				lower, below = b.GetUpperBound(), b.GetCumulativeCount()
			}
			t.Errorf("%v is in no finite bucket", truth)
		})
	}
}

func TestPhasesHaveNativeHistogramsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, registry := newTracked(func(w http.ResponseWriter, r *http.Request) {
			From(w).RequestFormat = "json"
			time.Sleep(time.Millisecond)
		})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/work", nil))
		hist := histograms(t, registry)["/work/json/decode"]
		if hist.Schema == nil || len(hist.GetPositiveSpan()) == 0 || len(hist.GetBucket()) != len(PhaseBuckets()) {
			t.Errorf("%v", hist)
		}
	})
}

func TestKnownSeriesAreThereFromTheStartAndHostileOnesNeverCome(t *testing.T) {
	h, registry := newTracked(func(w http.ResponseWriter, r *http.Request) {
		ex := From(w)
		ex.RequestFormat, ex.AnswerFormat, ex.Rejection = r.Header.Get("A"), r.Header.Get("B"), r.Header.Get("C")
		w.WriteHeader(200 + len(r.Header.Get("A"))%300)
	})
	series := func() int {
		n, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := series()
	for _, p := range Phases() {
		for _, format := range []string{"json", "octet", Other} {
			if _, ok := histograms(t, registry)["/work/"+format+"/"+p.String()]; !ok {
				t.Errorf("%s of %s is not there at the start", p, format)
			}
		}
	}
	for i := range 10_000 {
		r := httptest.NewRequest(fmt.Sprintf("M%d", i), fmt.Sprintf("/%d%%FF%%00", i), nil)
		if i%2 == 0 {
			r.URL.Path = "/work"
		}
		r.Header.Set("A", fmt.Sprintf("\xff%d", i))
		r.Header.Set("B", strings.Repeat("b", i%400))
		r.Header.Set("C", fmt.Sprint("reason ", i))
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Endpoint other: codes 200 (none was written), 404 and 405; work: other codes.
	if grown := series() - before; grown > 4 {
		t.Errorf("%d series have come", grown)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestWhatARouteSaysIsCounted(t *testing.T) {
	var registry *prometheus.Registry
	h, made := newTracked(func(w http.ResponseWriter, r *http.Request) {
		ex := From(w)
		ex.RequestFormat, ex.AnswerFormat, ex.BytesIn, ex.Rejection = "json", "octet", 12, "too-much"
		if got := value(t, registry, InFlightMetric); got != 1 {
			t.Errorf("%v requests are in flight", got)
		}
		_, _ = w.Write([]byte("12345"))
	})
	registry = made
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/work", nil))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/nowhere", nil))
	for series, want := range map[string]float64{
		RequestBytesMetric + "/work/json":   12,
		ResponseBytesMetric + "/work/octet": 5,
		ResponseBytesMetric + "/work/json":  0,
		RejectedMetric + "/too-much":        1,
		RequestsMetric + "/200/work":        1,
		RequestsMetric + "/404/other":       1,
		InFlightMetric:                      0,
		PanicsMetric:                        0,
	} {
		if got := value(t, registry, series); got != want {
			t.Errorf("%s: %v, not %v", series, got, want)
		}
	}
}

// value returns a counter or gauge by its name and label values.
func value(t *testing.T, registry *prometheus.Registry, series string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += "/" + l.GetValue()
			}
			if key == series {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}

func TestAPanicBecomesA500AndIsCounted(t *testing.T) {
	h, registry := newTracked(func(http.ResponseWriter, *http.Request) { panic("boom") })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/work", nil))
	if w.Code != 500 || value(t, registry, PanicsMetric) != 1 || value(t, registry, RequestsMetric+"/500/work") != 1 {
		t.Errorf("status %d, %v panics", w.Code, value(t, registry, PanicsMetric))
	}
}

func TestAPanicAfterAPartOfTheAnswerBreaksTheConnection(t *testing.T) {
	h, registry := newTracked(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic("boom")
	})
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler {
			t.Errorf("net/http is told %v", cause)
		}
		if value(t, registry, PanicsMetric) != 1 || value(t, registry, InFlightMetric) != 0 {
			t.Error("the panic is not counted, or the request never ends")
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/work", nil))
}

func TestABrokenAnswerReachesNoClientAsAWholeOne(t *testing.T) {
	h, _ := newTracked(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 100_000))
		panic("boom")
	})
	web := httptest.NewServer(h)
	defer web.Close()
	for range 3 {
		r, err := http.Post(web.URL+"/work", "", nil)
		if err != nil {
			continue // broken before the header was through
		}
		if n, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Errorf("%d bytes look like the whole answer", n)
		}
		_ = r.Body.Close()
	}
}
