//go:build clients

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const clients = "testdata/clients"

// The tests in testdata/clients speak to the server as its users do: with
// requests, numpy, msgpack, pyarrow and pandas. The variable PYTHON names the
// interpreter that has them, python3 by default.
func TestPythonClients(t *testing.T) {
	const get = `get the packages, from the root of the repository, with

	python3 -m venv .venv && .venv/bin/pip install -r cmd/texttax/testdata/clients/requirements.txt

and name their interpreter by its absolute path: PYTHON=$PWD/.venv/bin/python`

	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	path, err := exec.LookPath(python)
	if err != nil {
		t.Fatalf("there is no Python to run the clients: %v\n%s", err, get)
	}
	requirements, err := os.ReadFile(clients + "/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for line := range strings.Lines(string(requirements)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "==")
		packages = append(packages, name)
	}
	if out, err := exec.CommandContext(t.Context(), path, "-c", "import "+strings.Join(packages, ", ")).CombinedOutput(); err != nil {
		t.Fatalf("%s lacks a package: %v\n%s\n%s", path, err, out, get)
	}
	// go test takes a result from its cache unless a file that the test itself
	// opened has changed: so it must look at the clients.
	if _, err := os.ReadDir(clients); err != nil {
		t.Fatal(err)
	}

	frames := filepath.Join(socketFolder(t), "frames")
	s := start(t, "--frame-listen", "unix:"+frames)
	pytest := exec.CommandContext(t.Context(), path, "-m", "pytest", "-q", "-p", "no:cacheprovider", clients)
	pytest.Env = append(os.Environ(), "TEXTTAX_URL="+s.url, "TEXTTAX_FRAMES="+frames, "TEXTTAX="+buildBinary(t), "PYTHONDONTWRITEBYTECODE=1")
	pytest.WaitDelay = 5 * time.Second
	out, err := pytest.CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
		t.Fatalf("pytest: %v", err)
	}
}
