package containers

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

const root = "../../.."

// load reads docker-compose.yml as docker compose does, with a profile or
// without.
func load(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "docker-compose.yml")}},
	}, func(o *loader.Options) { o.Profiles = profiles })
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestComposeUpStartsServicePrometheusAndGrafana(t *testing.T) {
	if got := slices.Sorted(slices.Values(load(t).ServiceNames())); !slices.Equal(got, []string{"grafana", "prometheus", "texttax"}) {
		t.Errorf("%q", got)
	}
}

func TestTheLoadProfileSendsEveryFormatChunkyAndChatty(t *testing.T) {
	sent := map[string]bool{}
	for name, s := range load(t, "load").Services {
		if !strings.HasPrefix(name, "load-") {
			continue
		}
		format, granularity, rate := s.Environment["TEXTTAX_FORMAT"], s.Environment["TEXTTAX_GRANULARITY"], s.Environment["TEXTTAX_RATE"]
		if format == nil || granularity == nil || rate == nil {
			t.Errorf("%s is told %v", name, s.Environment)
			continue
		}
		if name != "load-"+*format+"-"+*granularity {
			t.Errorf("%s sends %s, %s", name, *format, *granularity)
		}
		sent[*format+" "+*granularity] = true
		if s.Image != "texttax" || s.PullPolicy != types.PullPolicyNever || s.Command[0] != "load" || s.Command[1] != "http://texttax:8080" {
			t.Errorf("%s runs %s %q", name, s.Image, s.Command)
		}
	}
	for _, format := range []string{"json", "json-std", "msgpack", "arrow", "octet"} {
		for _, granularity := range []string{"chunky", "chatty"} {
			if !sent[format+" "+granularity] {
				t.Errorf("nobody sends %s, %s", format, granularity)
			}
		}
	}
}

func TestEveryServiceIsHardenedAndPinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z]+/[a-z]+:v?\d+\.\d+\.\d+$`)
	project := load(t, "load")
	for name, s := range project.Services {
		if !s.ReadOnly || s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: read-only %v, privileged %v, drops %q, options %q", name, s.ReadOnly, s.Privileged, s.CapDrop, s.SecurityOpt)
		}
		if s.Image == "texttax" {
			if s.User != "" { // the Dockerfile's test looks at that
				t.Errorf("%s: user %s", name, s.User)
			}
		} else if user, _, _ := strings.Cut(s.User, ":"); user == "" || user == "0" || user == "root" || !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %s, user %s", name, s.Image, s.User)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to %q", name, p.Published, p.HostIP)
			}
		}
		for dependency, how := range s.DependsOn {
			if how.Condition != types.ServiceConditionHealthy {
				t.Errorf("%s waits until %s is %s", name, dependency, how.Condition)
			}
		}
		switch generator := strings.HasPrefix(name, "load-"); {
		case generator != (s.HealthCheck != nil && s.HealthCheck.Disable):
			t.Errorf("%s: health check %v", name, s.HealthCheck)
		case !generator && s.Image != "texttax" && (s.HealthCheck == nil || len(s.HealthCheck.Test) < 2):
			t.Errorf("%s has no health check", name)
		}
		for _, v := range s.Volumes {
			switch v.Type {
			case types.VolumeTypeVolume:
				if _, ok := project.Volumes[v.Source]; !ok || v.Source == "" {
					t.Errorf("%s: volume %q has no name of the file's", name, v.Source)
				}
			case types.VolumeTypeBind:
				if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
					t.Errorf("%s: %s, read-only %v: %v", name, v.Source, v.ReadOnly, err)
				}
			default:
				t.Errorf("%s: %s of type %s", name, v.Source, v.Type)
			}
		}
	}
}

// onHost returns the file of the repository that a container sees at a path.
func onHost(t *testing.T, s types.ServiceConfig, path string) string {
	t.Helper()
	for _, v := range s.Volumes {
		if rest, ok := strings.CutPrefix(path, v.Target); ok && v.Type == types.VolumeTypeBind {
			return filepath.Join(v.Source, rest)
		}
	}
	t.Fatalf("%s sees nothing of the repository at %s", s.Name, path)
	return ""
}

func TestPrometheusReadsItsConfigAndFindsTheServices(t *testing.T) {
	project := load(t, "load")
	s := project.Services["prometheus"]
	config := ""
	for _, argument := range s.Command {
		if path, ok := strings.CutPrefix(argument, "--config.file="); ok {
			config = onHost(t, s, path)
		}
	}
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
			DNSConfigs    []struct {
				Names []string
				Type  string
				Port  string
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	for _, rules := range c.RuleFiles {
		if _, err := os.Stat(filepath.Join(filepath.Dir(config), rules)); err != nil {
			t.Error(err)
		}
	}
	service, generators := c.ScrapeConfigs[0], c.ScrapeConfigs[1]
	if got := service.StaticConfigs[0].Targets; len(got) != 1 || got[0] != "texttax:8080" || !slices.Contains(project.Services["texttax"].Command, ":8080") {
		t.Errorf("Prometheus scrapes %q of a service that runs %q", got, project.Services["texttax"].Command)
	}
	for name, s := range project.Services {
		if !strings.HasPrefix(name, "load-") {
			continue
		}
		d := generators.DNSConfigs[0]
		if !slices.Equal(s.Networks["default"].Aliases, d.Names) || d.Type != "A" || !slices.Contains(s.Command, ":"+d.Port) {
			t.Errorf("%s is called %q and runs %q; Prometheus looks for %+v", name, s.Networks["default"].Aliases, s.Command, d)
		}
	}
}

func TestGrafanaShowsTheTextTaxToWhoeverComes(t *testing.T) {
	project := load(t)
	s := project.Services["grafana"]
	setting := func(name string) string {
		if v := s.Environment[name]; v != nil {
			return *v
		}
		return ""
	}
	for name, want := range map[string]string{
		"GF_AUTH_ANONYMOUS_ENABLED": "true", "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer", "GF_AUTH_DISABLE_LOGIN_FORM": "true",
		"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true", "GF_ANALYTICS_REPORTING_ENABLED": "false",
	} {
		if setting(name) != want {
			t.Errorf("%s is %q", name, setting(name))
		}
	}
	raw, err := os.ReadFile(onHost(t, s, setting("GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH")))
	if err != nil {
		t.Fatal(err)
	}
	var home struct{ Title string }
	if err := json.Unmarshal(raw, &home); err != nil || home.Title != "Text tax" {
		t.Errorf("the home dashboard is %q: %v", home.Title, err)
	}

	var providers struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	readYAML(t, "grafana/provisioning/dashboards/texttax.yml", &providers)
	files, err := filepath.Glob(filepath.Join(onHost(t, s, providers.Providers[0].Options.Path), "*.json"))
	if err != nil || len(files) != 2 || providers.Providers[0].Type != "file" {
		t.Errorf("provided are %q: %v", files, err)
	}
	var sources struct {
		Datasources []struct {
			Type, URL string
			UID       *string
			IsDefault bool `yaml:"isDefault"`
			JSONData  struct {
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		}
	}
	readYAML(t, "grafana/provisioning/datasources/prometheus.yml", &sources)
	d := sources.Datasources[0]
	if u, err := url.Parse(d.URL); err != nil || u.Host != "prometheus:9090" || d.Type != "prometheus" || d.UID != nil || !d.IsDefault {
		t.Errorf("data source %+v: %v", d, err)
	}
	var scrape struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		}
	}
	readYAML(t, "grafana/prometheus/prometheus.yml", &scrape)
	if d.JSONData.TimeInterval != scrape.Global.Interval {
		t.Errorf("Grafana believes in scrapes each %s, and they are each %s", d.JSONData.TimeInterval, scrape.Global.Interval)
	}
	for _, mount := range []string{"/etc/grafana/provisioning/datasources", "/etc/grafana/provisioning/dashboards"} {
		if entries, err := os.ReadDir(onHost(t, s, mount)); err != nil || len(entries) != 1 {
			t.Errorf("%s: %v, %v", mount, entries, err)
		}
	}
}
