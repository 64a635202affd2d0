package grafana

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"texttax/middleware"
)

// source is the data source that the reader chooses; the dashboards know none
// by its uid.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// query is one expression of a panel, over the dashboard's time.
func query(expression, legend string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source).Expr(expression).LegendFormat(legend).Range()
}

// now is one expression of a panel that shows the newest values only.
func now(expression, legend string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source).RefId("A").Expr(expression).LegendFormat(legend).
		Instant().Format(prometheus.PromQueryFormatTable)
}

// level is a value from which on a panel changes its color.
type level struct {
	from  float64
	color string
}

// thresholds colors a panel green below all levels.
func thresholds(levels ...level) cog.Builder[dashboard.ThresholdsConfig] {
	steps := []dashboard.Threshold{{Color: "green"}}
	for _, l := range levels {
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(l.from), Color: l.color})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

// Units, as Grafana names them.
const (
	seconds   = "s"
	bytesUnit = "bytes"
	perSecond = "reqps"
	fraction  = "percentunit"
	number    = "short"
	times     = "suffix:x"
)

// lines is a panel of lines over time, of half the dashboard's width.
func lines(title, description, unit string, queries ...*prometheus.DataqueryBuilder) *timeseries.PanelBuilder {
	return plot(title, description, unit, queries...).Min(0)
}

// logLines is lines with a scale on which powers of ten are alike: the formats
// are that far apart.
func logLines(title, description, unit string, queries ...*prometheus.DataqueryBuilder) *timeseries.PanelBuilder {
	return plot(title, description, unit, queries...).
		ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionLog).Log(10))
}

func plot(title, description, unit string, queries ...*prometheus.DataqueryBuilder) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().
		Title(title).Description(description).Datasource(source).Unit(unit).
		Span(12).Height(8).
		LineWidth(1).FillOpacity(5).ShowPoints(common.VisibilityModeAuto).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Thresholds(thresholds())
	for i, q := range queries {
		p.WithTarget(q.RefId(string(rune('A' + i))))
	}
	return p
}

// limited is lines with its thresholds drawn.
func limited(p *timeseries.PanelBuilder, levels ...level) *timeseries.PanelBuilder {
	return p.Thresholds(thresholds(levels...)).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

// PhaseColors tell the phases apart in every panel: the tax is red, the
// kernel green, the wire blue.
var PhaseColors = map[middleware.Phase]string{
	middleware.TransitIn:  "#8ab8ff",
	middleware.Decompress: "#b877d9",
	middleware.Decode:     "#e02f44",
	middleware.Queue:      "#9fa7b3",
	middleware.Compute:    "#56a64b",
	middleware.Encode:     "#ff9830",
	middleware.Compress:   "#7c2ea3",
	middleware.TransitOut: "#3274d9",
}

func color(name string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "color", Value: map[string]string{"mode": "fixed", "fixedColor": name}}}
}
