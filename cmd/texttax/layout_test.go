package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "texttax"

// topLevel is what may lie at the top: the folders of the architecture, and
// the usual files.
var topLevel = []string{
	"cmd", "handlers", "kernel", "encoding", "middleware", "loadtest", "grafana",
	"go.mod", "go.sum", "docker-compose.yml", "README.md", "Dockerfile", ".dockerignore",
	"LICENSE", "Makefile", ".ci", ".git", ".gitignore", ".gitattributes", ".venv",
}

// mayImport lists what each folder may import of this module and of others.
// A trailing /... takes in all below. Tests may import more.
var mayImport = map[string][]string{
	"kernel":     {"texttax/kernel/...", "golang.org/x/sys/cpu"},
	"encoding":   {"texttax/encoding/...", "texttax/kernel/...", "golang.org/x/sys/cpu", "golang.org/x/sys/unix", "github.com/apache/arrow/...", "github.com/vmihailenco/msgpack/...", "github.com/klauspost/compress/...", "github.com/pierrec/lz4/..."},
	"middleware": {"github.com/go-chi/chi/...", "github.com/prometheus/client_golang/..."},
	"handlers":   {"texttax/handlers/...", "texttax/encoding/...", "texttax/kernel/...", "texttax/middleware", "golang.org/x/sys/unix", "github.com/go-chi/chi/...", "github.com/klauspost/compress/..."},
	"loadtest":   {"texttax/encoding/...", "texttax/kernel/...", "texttax/loadtest/...", "github.com/...", "golang.org/..."},
	"grafana":    {"texttax/middleware", "texttax/loadtest", "github.com/grafana/grafana-foundation-sdk/..."},
	"cmd":        {"..."},
}

func TestTheTopLevelHoldsTheArchitectureAndNothingElse(t *testing.T) {
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(topLevel, e.Name()) {
			t.Errorf("%s has no place at the top level", e.Name())
		}
	}
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel("../..", path)
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && d.IsDir() && relative != "." {
			return filepath.SkipDir // a module of its own, such as the generator of the assembly
		}
		folder, _, inside := strings.Cut(filepath.ToSlash(relative), "/")
		if !inside || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !allowed(folder, name) {
				t.Errorf("%s imports %s, which %s may not", relative, name, folder)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func allowed(folder, name string) bool {
	first, _, _ := strings.Cut(name, "/")
	if first != module && !strings.Contains(first, ".") {
		return true // the standard library
	}
	for _, rule := range mayImport[folder] {
		prefix, below := strings.CutSuffix(rule, "/...")
		if rule == "..." || name == rule || below && (name == prefix || strings.HasPrefix(name, prefix+"/")) {
			return true
		}
	}
	return false
}

func TestTheImportRulesForbidWhatTheyShould(t *testing.T) {
	for folder, name := range map[string]string{
		"kernel": "texttax/encoding", "encoding": "texttax/middleware", "middleware": "texttax/encoding",
		"handlers": "github.com/prometheus/client_golang/prometheus", "loadtest": "texttax/handlers", "grafana": "texttax/kernel",
	} {
		if allowed(folder, name) {
			t.Errorf("%s may import %s", folder, name)
		}
	}
}
