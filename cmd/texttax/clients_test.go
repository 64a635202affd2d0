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

const (
	pythonClients     = "testdata/clients"
	javaScriptClients = "testdata/js"
)

// The tests in testdata/clients speak to the server as its users do: with
// requests, numpy, msgpack, orjson, pyarrow, pandas and polars. The variable
// PYTHON names the interpreter that has them, python3 by default.
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
	requirements, err := os.ReadFile(pythonClients + "/requirements.txt")
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
	lookAt(t, pythonClients)

	frames := filepath.Join(socketFolder(t), "frames")
	s := start(t, "--frame-listen", "unix:"+frames)
	pytest := exec.CommandContext(t.Context(), path, "-m", "pytest", "-q", "-p", "no:cacheprovider", pythonClients)
	pytest.Env = append(os.Environ(), "TEXTTAX_URL="+s.url, "TEXTTAX_FRAMES="+frames, "TEXTTAX="+buildBinary(t), "PYTHONDONTWRITEBYTECODE=1")
	runClients(t, pytest)
}

// The tests in testdata/js speak to the server by fetch, with apache-arrow,
// @msgpack/msgpack, and what every browser has.
func TestJavaScriptClients(t *testing.T) {
	const get = `get the packages, from the root of the repository, with

	npm ci --prefix cmd/texttax/testdata/js`

	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("there is no Node.js (18 or later) to run the clients: %v", err)
	}
	// npm ls fails if what is installed is not what package-lock.json says.
	list := exec.CommandContext(t.Context(), "npm", "ls", "--prefix", javaScriptClients)
	if out, err := list.CombinedOutput(); err != nil {
		t.Fatalf("a package is lacking: %v\n%s\n%s", err, out, get)
	}
	lookAt(t, javaScriptClients)
	files, err := filepath.Glob(javaScriptClients + "/*.test.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}

	s := start(t)
	tests := exec.CommandContext(t.Context(), node, append([]string{"--test"}, files...)...)
	tests.Env = append(os.Environ(), "TEXTTAX_URL="+s.url)
	runClients(t, tests)
}

// lookAt makes go test run again when a client has changed: it takes a result
// from its cache unless a file that the test itself opened has changed.
func lookAt(t *testing.T, clients string) {
	t.Helper()
	if _, err := os.ReadDir(clients); err != nil {
		t.Fatal(err)
	}
}

func runClients(t *testing.T, command *exec.Cmd) {
	t.Helper()
	command.WaitDelay = 5 * time.Second
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
