package grafana

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the dashboards anew")

func TestTheDashboardsAreWhatTheirCodeMakes(t *testing.T) {
	made, err := Dashboards()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		path := filepath.Join("dashboards", name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its code makes; go test ./grafana -update writes it anew", path)
		}
	}
	files, err := os.ReadDir("dashboards")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(made) {
		t.Errorf("%d files, of %d dashboards", len(files), len(made))
	}
}

// dashboardFile is the JSON as Grafana reads it, as far as these tests look.
type dashboardFile struct {
	Title      string
	Tags       []string
	Uid        *string
	Templating struct {
		List []struct {
			Name, Type, Label, Description string
			Query                          any
			Datasource                     *dataSource
		}
	}
	Panels []panelFile
}

type dataSource struct{ Type, Uid string }

type panelFile struct {
	Id                       int
	Type, Title, Description string
	Datasource               *dataSource
	Targets                  []struct {
		Expr, RefId string
		Datasource  *dataSource
	}
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds *struct{ Steps []any }
		}
	}
	GridPos struct{ X, Y, W, H int }
}

func readDashboards(t *testing.T) map[string]dashboardFile {
	t.Helper()
	made, err := Dashboards()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]dashboardFile{}
	for name, raw := range made {
		var d dashboardFile
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		read[name] = d
	}
	return read
}

func TestEveryPanelSaysWhatItShowsInWhichUnitAndWhatIsMuch(t *testing.T) {
	for name, d := range readDashboards(t) {
		ids := map[int]bool{}
		panels := 0
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			panels++
			defaults := p.FieldConfig.Defaults
			if len(p.Title) == 0 || len(p.Description) < 15 || !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s: panel %q is described as %q", name, p.Title, p.Description)
			}
			if defaults.Unit == "" || defaults.Thresholds == nil || len(defaults.Thresholds.Steps) == 0 {
				t.Errorf("%s: panel %q has unit %q and thresholds %v", name, p.Title, defaults.Unit, defaults.Thresholds)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: panel %q asks for nothing", name, p.Title)
			}
			if ids[p.Id] || p.Id == 0 {
				t.Errorf("%s: panel %q has the id %d", name, p.Title, p.Id)
			}
			ids[p.Id] = true
		}
		if panels < 10 {
			t.Errorf("%s has %d panels", name, panels)
		}
	}
}

// A data source is known by a uid that differs from one Grafana to the next.
func TestEveryQueryGoesToTheDataSourceOfTheVariable(t *testing.T) {
	made, err := Dashboards()
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range made {
		for _, uid := range regexp.MustCompile(`(?i)"uid":\s*("[^"]*"|[^,}\s]+)`).FindAllSubmatch(raw, -1) {
			if string(uid[1]) != `"${datasource}"` {
				t.Errorf("%s: uid %s", name, uid[1])
			}
		}
		if bytes.Contains(raw, []byte("${DS_")) || bytes.Contains(raw, []byte("__inputs")) {
			t.Errorf("%s is an export for other Grafanas, which provisioning can't read", name)
		}
	}
	for name, d := range readDashboards(t) {
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			for _, target := range p.Targets {
				if target.Datasource == nil || *target.Datasource != (dataSource{"prometheus", "${datasource}"}) {
					t.Errorf("%s: %q asks %v", name, p.Title, target.Datasource)
				}
			}
			if p.Datasource == nil || p.Datasource.Uid != "${datasource}" {
				t.Errorf("%s: %q is of %v", name, p.Title, p.Datasource)
			}
		}
	}
}

func TestTheVariablesAreDataSourceInstanceEndpointAndFormat(t *testing.T) {
	for name, d := range readDashboards(t) {
		var names []string
		for _, v := range d.Templating.List {
			names = append(names, v.Name)
			if v.Label == "" || v.Description == "" {
				t.Errorf("%s: variable %s is not described", name, v.Name)
			}
			if v.Type == "query" && (v.Datasource == nil || v.Datasource.Uid != "${datasource}") {
				t.Errorf("%s: variable %s asks %v", name, v.Name, v.Datasource)
			}
		}
		if got := strings.Join(names, " "); got != "datasource instance endpoint format" {
			t.Errorf("%s: variables %s", name, got)
		}
		used := map[string]bool{}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, v := range regexp.MustCompile(`\$\w+`).FindAllString(target.Expr, -1) {
					used[v] = true
				}
			}
		}
		for _, v := range []string{"$instance", "$endpoint", "$format", "$__rate_interval"} {
			if !used[v] {
				t.Errorf("%s: no panel looks at %s", name, v)
			}
		}
	}
}

// Grafana chooses the window of rates by the scrape interval and the width of
// the screen; a fixed one is empty, or blind.
func TestRatesAreOverTheIntervalThatGrafanaChooses(t *testing.T) {
	for name, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, window := range regexp.MustCompile(`\[[^\]]*\]`).FindAllString(target.Expr, -1) {
					if window != "[$__rate_interval]" && window != "[$__range]" {
						t.Errorf("%s: %q looks at %s", name, p.Title, window)
					}
				}
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	for name, d := range readDashboards(t) {
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %q lies on %q, or outside", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title + " "
				}
			}
		}
	}
}
