package containers

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// launch runs the image's binary until the test ends.
func launch(t *testing.T, c *exec.Cmd) {
	t.Helper()
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%q says:\n%.2000s", c.Args, said.String())
		}
	})
}

// Each generator of the load profile runs by its own arguments and variables
// against a server that runs by its own; only ports are others.
func TestTheLoadProfileMakesLoadThatPrometheusCanScrape(t *testing.T) {
	i := readDockerfile(t)
	scratch := build(t)
	server := freeAddress(t)
	serve := slices.Clone(command[*instructions.CmdCommand](t, i).CmdLine)
	serve[slices.Index(serve, ":8080")] = server
	launch(t, inContainer(t, i, scratch, serve...))
	eventually(t, "the server is healthy", func() bool {
		return inContainer(t, i, scratch, "healthcheck", "http://"+server).Run() == nil
	})
	for name, s := range load(t, "load").Services {
		if !strings.HasPrefix(name, "load-") {
			continue
		}
		metrics := freeAddress(t)
		args := slices.Clone(s.Command)
		args[slices.Index(args, "http://texttax:8080")] = "http://" + server
		args[slices.Index(args, ":9091")] = metrics
		c := inContainer(t, i, scratch, args...)
		for variable, value := range s.Environment {
			c.Env = append(c.Env, variable+"="+*value)
		}
		launch(t, c)
		eventually(t, name+" has measured calls", func() bool {
			answer, err := http.Get("http://" + metrics + "/metrics")
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				return false
			}
			for line := range strings.Lines(string(text)) {
				series, value, _ := strings.Cut(line, "} ")
				if strings.HasPrefix(series, "texttax_client_phase_duration_seconds_count{") &&
					strings.Contains(series, `format="`+*s.Environment["TEXTTAX_FORMAT"]+`"`) &&
					strings.Contains(series, `phase="transit"`) && strings.TrimSpace(value) != "0" {
					return true
				}
			}
			return false
		})
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("a minute has passed, and it is not so that %s", what)
		}
	}
}
