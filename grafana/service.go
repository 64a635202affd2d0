package grafana

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"

	"texttax/middleware"
)

// Metrics of the Go and process collectors, which every Go service has.
const (
	goroutines   = "go_goroutines"
	heapBytes    = "go_memstats_heap_inuse_bytes"
	collection   = "go_gc_duration_seconds"
	cpuSeconds   = "process_cpu_seconds_total"
	residentSize = "process_resident_memory_bytes"
	openFiles    = "process_open_fds"
	maxFiles     = "process_max_fds"
	startTime    = "process_start_time_seconds"
)

// apdexRule is recorded by prometheus/rules.yml.
const apdexRule = "endpoint:texttax_apdex:ratio_rate5m"

// service is the dashboard for whoever runs the service.
func service() *builder {
	d := begin("Service", "Rates, errors and durations by endpoint and format, and what the service runs into: queue, slots, memory.")
	at := func(metric string) string { return metric + "{" + chosenInstance + "}" }

	d.WithPanel(figure("Up", "Servers that answer the scrape, of those that are known.", fraction,
		`avg(up{job="texttax",instance=~"$instance"})`).Span(5).Thresholds(
		dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
			{Color: "red"}, {Value: new(1.0), Color: "green"}})))
	d.WithPanel(figure("Apdex", "Part of the requests within 0.2 s, and half of those within 1 s, over five minutes: the worst endpoint.", fraction,
		"min("+apdexRule+`{endpoint=~"$endpoint"})`).Span(5).Thresholds(
		dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
			{Color: "red"}, {Value: new(0.7), Color: "yellow"}, {Value: new(0.94), Color: "green"}})))
	d.WithPanel(figure("Requests in flight", "Requests being served, the scrape among them.", number,
		sum("", at(middleware.InFlightMetric))).Thresholds(thresholds(level{64, "yellow"}, level{512, "red"})).Span(5))
	d.WithPanel(figure("Panics", "Requests that ended in a panic, in the dashboard's time.", number,
		sum("", fmt.Sprintf("increase(%s{%s}[$__range])", middleware.PanicsMetric, chosenInstance))).Thresholds(thresholds(level{1, "red"})).Span(5))
	d.WithPanel(figure("Up since", "Time since the newest start of a server.", seconds,
		"time() - max("+ofService(startTime)+")").Thresholds(thresholds()).Span(4))
	d.WithPanel(build())

	d.WithRow(dashboard.NewRowBuilder("Rate, errors, duration"))
	d.WithPanel(lines("Requests by endpoint", "Requests a second, whatever their answer.", perSecond,
		query(sum("endpoint", rate(middleware.RequestsMetric, chosenInstance)), "{{endpoint}}")))
	d.WithPanel(lines("Requests by format", "Requests a second at the chosen endpoints, by the format of their body.", perSecond,
		query(sum("endpoint, format", rate(middleware.PhaseMetric+"_count", chosen, phaseIs(middleware.Decode))), "{{endpoint}}, {{format}}")))
	d.WithPanel(limited(lines("Errors by endpoint", "Part of the requests whose answer is 5xx: the service's own fault.", fraction,
		query(over(
			sum("endpoint", rate(middleware.RequestsMetric, chosenEndpoint, `code=~"5.."`)),
			sum("endpoint", rate(middleware.RequestsMetric, chosenEndpoint))), "{{endpoint}}")),
		level{0.01, "yellow"}, level{0.05, "red"}))
	d.WithPanel(lines("Answers by code", "Answers a second that are not 200. Code 499 is a client that went away.", perSecond,
		query(sum("code", rate(middleware.RequestsMetric, chosenEndpoint, `code!="200"`)), "{{code}}")))
	d.WithPanel(limited(logLines("Duration by endpoint", "Half, nine tenths and 99 of 100 requests take less than this, from the header to the end of the answer. Buckets end at 1, 2 and 5 of each power of ten.", seconds,
		query(quantile(0.5, "endpoint", middleware.DurationMetric, chosenEndpoint), "p50 {{endpoint}}"),
		query(quantile(0.9, "endpoint", middleware.DurationMetric, chosenEndpoint), "p90 {{endpoint}}"),
		query(quantile(0.99, "endpoint", middleware.DurationMetric, chosenEndpoint), "p99 {{endpoint}}")),
		level{1, "yellow"}, level{10, "red"}))
	d.WithPanel(logLines("Mean duration by format", "Mean time of a request, by the format of its body: all phases together.", seconds,
		query(sum("format", timePerRequest("format")), "{{format}}")))

	d.WithRow(dashboard.NewRowBuilder("Saturation"))
	d.WithPanel(limited(lines("Queue", "Requests that wait for a compute slot. By default 1,024 may; beyond it they are refused.", number,
		query(at(middleware.QueueDepthMetric), "{{instance}}")), level{64, "yellow"}, level{512, "red"}))
	d.WithPanel(limited(lines("Compute slots in use", "Part of the slots that compute. At 100 % the next sweep waits.", fraction,
		query(at(middleware.SlotsBusyMetric)+" / "+at(middleware.SlotsMetric), "{{instance}}")).Max(1),
		level{0.8, "yellow"}, level{0.99, "red"}))
	d.WithPanel(limited(logLines("Wait for a slot", "Half, nine tenths and 99 of 100 sweeps wait less than this.", seconds,
		query(quantile(0.5, "", middleware.PhaseMetric, chosen, phaseIs(middleware.Queue)), "p50"),
		query(quantile(0.9, "", middleware.PhaseMetric, chosen, phaseIs(middleware.Queue)), "p90"),
		query(quantile(0.99, "", middleware.PhaseMetric, chosen, phaseIs(middleware.Queue)), "p99")),
		level{0.1, "yellow"}, level{1, "red"}))
	d.WithPanel(lines("Rejections", "Requests a second that were refused, by reason.", perSecond,
		query(sum("reason", rate(middleware.RejectedMetric, chosenInstance)), "{{reason}}")))

	d.WithRow(dashboard.NewRowBuilder("Bodies and datasets"))
	d.WithPanel(lines("Bodies in", "Bytes of request bodies a second, as on the wire.", "Bps",
		query(sum("endpoint, format", rate(middleware.RequestBytesMetric, chosen)), "{{endpoint}}, {{format}}")))
	d.WithPanel(lines("Bodies out", "Bytes of answers a second, as on the wire.", "Bps",
		query(sum("endpoint, format", rate(middleware.ResponseBytesMetric, chosen)), "{{endpoint}}, {{format}}")))
	d.WithPanel(lines("Memory of bodies", "Bytes reserved for the bodies of requests in flight, and how many there are.", bytesUnit,
		query(at(middleware.MemoryBusyMetric), "reserved, {{instance}}"), query(at(middleware.MemoryMetric), "all, {{instance}}")))
	d.WithPanel(lines("Datasets", "Preloaded series.", number, query(at(middleware.DatasetsMetric), "{{instance}}")))
	d.WithPanel(lines("Memory of datasets", "Bytes that the preloaded series take.", bytesUnit, query(at(middleware.DatasetBytesMetric), "{{instance}}")))

	d.WithRow(dashboard.NewRowBuilder("Process"))
	d.WithPanel(lines("CPU", "Cores that the process keeps busy.", number, query(rate(cpuSeconds, chosenInstance, `job="texttax"`), "{{instance}}")))
	d.WithPanel(lines("Memory", "Resident memory of the process, and the part of it that is Go's heap.", bytesUnit,
		query(ofService(residentSize), "resident, {{instance}}"), query(ofService(heapBytes), "heap, {{instance}}")))
	d.WithPanel(limited(lines("Goroutines", "Goroutines that exist: some for each connection.", number,
		query(ofService(goroutines), "{{instance}}")), level{10_000, "red"}))
	d.WithPanel(lines("Garbage collection", "Time that collections stopped the program for, as a part of all time.", fraction,
		query(rate(collection+"_sum", chosenInstance, `job="texttax"`), "{{instance}}")).
		Thresholds(thresholds(level{0.01, "yellow"}, level{0.05, "red"})))
	d.WithPanel(limited(lines("Open files", "Part of the files and sockets that the process may have open.", fraction,
		query(ofService(openFiles)+" / "+ofService(maxFiles), "{{instance}}")).Max(1), level{0.7, "yellow"}, level{0.9, "red"}).Span(24))
	return d
}

// ofService selects a metric that other jobs have too.
func ofService(metric string) string { return metric + `{job="texttax",` + chosenInstance + `}` }

func figure(title, description, unit, expression string) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).Description(description).Datasource(source).Unit(unit).Height(4).
		WithTarget(prometheus.NewDataqueryBuilder().Datasource(source).RefId("A").Expr(expression).Instant()).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeValue)
}

// build tells which program runs, and on which kernel.
func build() *table.PanelBuilder {
	return table.NewPanelBuilder().
		Title("Build").Description("Version, revision and Go of each server, and the implementation of the kernel that it found fit for its processor.").
		Datasource(source).Unit("none").Span(24).Height(4).
		WithTarget(now(sum("instance, version, revision, goversion, kernel", middleware.BuildInfoMetric+"{"+chosenInstance+"}"), "")).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true, "Value": true},
			"indexByName":   map[string]int{"instance": 0, "kernel": 1, "version": 2, "revision": 3, "goversion": 4},
		}}).
		Thresholds(thresholds())
}
