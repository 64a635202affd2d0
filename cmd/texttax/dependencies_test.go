package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// licences are those that this program's dependencies may have, with words that
// only they have.
var licences = map[string]string{
	"Apache-2.0": "Apache License Version 2.0, January 2004",
	"MIT":        "Permission is hereby granted, free of charge, to any person obtaining a copy",
	"BSD":        "Redistribution and use in source and binary forms, with or without modification, are permitted",
}

// licence tells the licence of the module in the folder, "" if it is none of
// ours.
func licence(t *testing.T, folder string) string {
	t.Helper()
	var raw []byte
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING", "README.md"} {
		var err error
		if raw, err = os.ReadFile(filepath.Join(folder, name)); err == nil {
			break
		}
	}
	// The licences of what a module has taken over come after its own.
	text := strings.Join(strings.Fields(string(raw[:min(len(raw), 3000)])), " ")
	first, found := len(text), ""
	for name, words := range licences {
		if at := strings.Index(text, words); at >= 0 && at < first {
			first, found = at, name
		}
	}
	if strings.Contains(text, "GNU ") {
		return ""
	}
	return found
}

func TestEveryModuleHasALicenceThatMayBeUsed(t *testing.T) {
	for module, folder := range modules(t) {
		if licence(t, folder) == "" {
			t.Errorf("%s: the licence is none of Apache-2.0, BSD and MIT", module)
		}
	}
}

// modules lists the modules that the program and its tests are made of, with
// their folders.
func modules(t *testing.T) map[string]string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-test", "-tags", "clients readme prometheus chromium faults", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, folder, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[path] = folder
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d modules are listed", len(all))
	}
	return all
}

// The README's table of dependencies names the direct ones of go.mod, all of
// them and no other, with their licences and what each is for.
func TestTheREADMEListsTheDependencies(t *testing.T) {
	raw, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// go test takes its result from the cache unless a file that it read changed.
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9.-]+\\.[a-z]+/[^`]+)` \\| ([A-Za-z0-9.-]+) \\| .{10,} \\|$").FindAllStringSubmatch(string(readme), -1) {
		listed[row[1]] = row[2]
	}
	folders := modules(t)
	direct := regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`).FindAllStringSubmatch(string(raw), -1)
	if len(direct) < 5 {
		t.Fatalf("only %d direct dependencies are found in go.mod", len(direct))
	}
	for _, m := range direct {
		module := m[1]
		said, ok := listed[module]
		delete(listed, module)
		if is := licence(t, folders[module]); !ok || said != is {
			t.Errorf("%s: the README says that its licence is %q; it is %q", module, said, is)
		}
	}
	for module := range listed {
		t.Errorf("%s is in the README, and not in go.mod", module)
	}
}
