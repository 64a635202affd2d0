package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"texttax/middleware"
)

// Dashboards returns the JSON of each dashboard by the name of its file.
func Dashboards() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, build := range map[string]func() *builder{
		"texttax.json": textTax, "service.json": service,
	} {
		built, err := build().Build()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, p := range built.Panels {
			if p.Panel != nil {
				p.Panel.Id = cog.ToPtr(uint32(i + 1))
			}
		}
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(built); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = out.Bytes()
	}
	return files, nil
}

// The form that these dashboards have is what Grafana's provisioning and its
// home dashboard read from files, in every version that there is.
//
//lint:ignore SA1019 the form that is to come after it is read by the newest versions only
type builder = dashboard.DashboardBuilder

//lint:ignore SA1019 see builder
var newBuilder = dashboard.NewDashboardBuilder

// begin makes a dashboard with what both have in common. It has no uid, and so
// Grafana gives it one; the dashboards find each other by their tag.
func begin(title, description string) *builder {
	const tag = "texttax"
	all := func(name, label, description, query string) *dashboard.QueryVariableBuilder {
		return dashboard.NewQueryVariableBuilder(name).Label(label).Description(description).
			Datasource(source).Query(dashboard.StringOrMap{String: &query}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
			Multi(true).IncludeAll(true).
			Current(dashboard.VariableOption{
				Text:  dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
				Value: dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
			})
	}
	counts := middleware.PhaseMetric + "_count"
	return newBuilder(title).Description(description).Tags([]string{tag}).
		Readonly().Timezone("browser").Refresh("5s").Time("now-15m", "now").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Dashboards").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{tag}).IncludeVars(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus").
			Description("The Prometheus that scrapes texttax.")).
		WithVariable(all("instance", "Instance", "Servers, by the address that Prometheus scrapes.",
			"label_values("+middleware.BuildInfoMetric+", instance)")).
		WithVariable(all("endpoint", "Endpoint", "Endpoints whose requests are split into phases.",
			"label_values("+counts+", endpoint)")).
		WithVariable(all("format", "Format", "Formats of bodies. Refused requests whose format is unknown, and problems, are of none.",
			"label_values("+counts+", format)").Regex("/^(?!" + middleware.Other + "$)/"))
}
