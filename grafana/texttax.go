package grafana

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/barchart"
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"texttax/loadtest"
	"texttax/middleware"
)

// textTax is the dashboard of where the time goes, and what text costs.
func textTax() *builder {
	d := begin("Text tax", "Where the time of a request goes, by body format, and what the text of JSON costs beside raw octets.")
	d.WithPanel(phasesNow()).WithPanel(taxNow())

	d.WithRow(dashboard.NewRowBuilder("Phases of a request, as the load moves"))
	d.WithPanel(phasesOverTime())

	d.WithRow(dashboard.NewRowBuilder("Tax"))
	d.WithPanel(limited(logLines("Tax ratio",
		"Decode plus encode, over the same of raw octets at the same endpoint. It compares like with like if all formats get the same requests, as the load profile sends them.",
		times, query(taxRatio(), "{{format}}, {{endpoint}}")),
		level{10, "yellow"}, level{100, "red"}))
	d.WithPanel(limited(lines("Share of the boundary",
		"Part of the time of sweeps that is neither in the kernel nor in the queue: what REST costs around the computation.",
		fraction, query(boundaryShare(), "{{format}}")).Max(1),
		level{0.1, "yellow"}, level{0.5, "red"}))

	d.WithRow(dashboard.NewRowBuilder("Spread"))
	d.WithPanel(spread())
	d.WithPanel(heat())

	d.WithRow(dashboard.NewRowBuilder("The wire"))
	d.WithPanel(transit())
	d.WithPanel(lines("Bytes per bar",
		"Bytes of request bodies for each bar that they carry. A float64 has 8; the text of one has about 18.",
		"none", query(over(
			sum("format", rate(middleware.RequestBytesMetric, chosen)),
			sum("format", rate(middleware.BarsMetric, chosen))), "{{format}}")).
		Decimals(1).Thresholds(thresholds(level{8.5, "yellow"}, level{16, "red"})))

	d.WithRow(dashboard.NewRowBuilder("Chatty against chunky"))
	d.WithPanel(logLines("Boundary per combo",
		"Time at the boundary for each combo. Chatty clients send a request, with the series, for each combo; chunky ones send one request for many.",
		seconds, query(perCombo(), "{{format}}, {{combos}} a request")))
	d.WithPanel(limited(lines("Share of the boundary, chatty and chunky",
		"Part of the time of sweeps that goes into the boundary, in requests for one combo and in requests for many. With G = computing time over boundary, it is about 1 / (1 + G).",
		fraction, query(comboShare(), "{{format}}, {{combos}} a request")).Max(1),
		level{0.1, "yellow"}, level{0.5, "red"}))
	d.WithPanel(lines("Combos computed",
		"Combos for each second, by whether they came alone or together.",
		"cps", query(sum("format, combos", rate(middleware.CombosMetric, chosenInstance, `format=~"$format"`)), "{{format}}, {{combos}} a request")).Span(24))
	return d
}

// phasesNow is one stacked bar for each format.
func phasesNow() *barchart.PanelBuilder {
	// The query has a row for each format and phase; the chart wants a row for
	// each format with a column for each phase.
	const formatColumn = `format\phase`
	order := map[string]int{formatColumn: 0}
	for i, p := range middleware.Phases() {
		order[p.String()] = i + 1
	}
	p := barchart.NewPanelBuilder().
		Title("Where a request's time goes").
		Description("Mean time of a request in each phase, by body format, over the last scrapes. The height of a bar is the mean time that the server spent on a request.").
		Datasource(source).Unit(seconds).Span(14).Height(11).
		WithTarget(now(timePerRequest("format"), "")).
		WithTransformation(dashboard.DataTransformerConfig{Id: "groupingToMatrix", Options: map[string]any{
			"rowField": "format", "columnField": "phase", "valueField": "Value", "emptyValue": "zero"}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"indexByName": order, "renameByName": map[string]string{formatColumn: "format"}}}).
		XField("format").Orientation(common.VizOrientationAuto).Stacking(common.StackingModeNormal).
		ShowValue(common.VisibilityModeNever).BarWidth(0.8).FillOpacity(85).LineWidth(0).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderNone)).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Thresholds(thresholds())
	for _, phase := range middleware.Phases() {
		p.OverrideByName(phase.String(), color(PhaseColors[phase]))
	}
	return p
}

func taxNow() *bargauge.PanelBuilder {
	return bargauge.NewPanelBuilder().
		Title("Text tax: times the cost of octets").
		Description("Decode plus encode of each format, over the same of raw octets at the same endpoint, over the last scrapes.").
		Datasource(source).Unit(times).Decimals(1).Min(0).Span(10).Height(11).
		WithTarget(prometheus.NewDataqueryBuilder().Datasource(source).RefId("A").Expr(taxRatio()).LegendFormat("{{format}}, {{endpoint}}").Instant()).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeGradient).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(thresholds(level{10, "yellow"}, level{100, "red"}))
}

func phasesOverTime() *timeseries.PanelBuilder {
	p := lines("$format", "Mean time of a request in each phase, stacked: the height is the mean time that the server spent on a request.",
		seconds, query(timePerRequest(""), "{{phase}}")).
		Repeat("format").RepeatDirection(dashboard.PanelRepeatDirectionH).MaxPerRow(3).
		Span(8).FillOpacity(70).LineWidth(0).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	for _, phase := range middleware.Phases() {
		p.OverrideByName(phase.String(), color(PhaseColors[phase]))
	}
	return p
}

func spread() *timeseries.PanelBuilder {
	var queries []*prometheus.DataqueryBuilder
	for _, q := range []float64{0.5, 0.9, 0.99} {
		queries = append(queries, query(quantile(q, "phase", middleware.PhaseMetric, chosen), fmt.Sprintf("p%g {{phase}}", q*100)))
	}
	return logLines("Quantiles of the phases",
		"Half, nine tenths and 99 of 100 requests spend less than this in a phase, over the chosen endpoints and formats. Its buckets end at 1, 2 and 5 of each power of ten: it is within a factor of 2.5 of the truth.",
		seconds, queries...)
}

func heat() *heatmap.PanelBuilder {
	return heatmap.NewPanelBuilder().
		Title("Decoding and encoding").
		Description("How long decoding and encoding took: each column is a moment, each row a duration, and the color the number of requests a second.").
		Datasource(source).Unit(perSecond).Span(12).Height(8).
		WithTarget(query(sum("le", rate(middleware.PhaseMetric+"_bucket", chosen,
			phaseIn(middleware.Decode.String()+"|"+middleware.Encode.String()))), "{{le}}").RefId("A").Format(prometheus.PromQueryFormatHeatmap)).
		Calculate(false).
		YAxis(heatmap.NewYAxisConfigBuilder().Unit(seconds)).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").
			Scale(heatmap.HeatmapColorScaleExponential).Exponent(0.5).Steps(64).Fill("dark-orange")).
		CellGap(1).
		Thresholds(thresholds())
}

func transit() *timeseries.PanelBuilder {
	server := over(
		sum("format", rate(middleware.PhaseMetric+"_sum", chosen, phaseIn(middleware.TransitIn.String()+"|"+middleware.TransitOut.String()))),
		sum("format", rate(middleware.PhaseMetric+"_count", chosen, phaseIs(middleware.TransitOut))))
	// The load generator is another instance than the server.
	client := meanOf("format", loadtest.PhaseMetric, `endpoint=~"$endpoint"`, `format=~"$format"`, fmt.Sprintf("phase=%q", loadtest.Transit))
	return logLines("Transit, by the client and by the server",
		"Mean time of a request on the wire. The server's view is a lower bound: a write ends when the operating system has the bytes. The client's is honest: its wall time, less what the server calls its own. It is there while the load generator runs.",
		seconds, query(server, "{{format}}, server"), query(client, "{{format}}, client"))
}
