package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"texttax/handlers/store/elsewhere"
)

// wantNoInternals checks that a refusal does not show where the datasets are.
func wantNoInternals(t *testing.T, r reply, dir string) {
	t.Helper()
	for _, word := range []string{dir, "new-", "set-", "no space", "permission", "denied"} {
		if strings.Contains(string(r.body), word) {
			t.Errorf("%q is in %s", word, r.body)
		}
	}
}

func TestAFullDiskIsA507(t *testing.T) {
	if elsewhere.Run(t, elsewhere.Mounts()) {
		return
	}
	dir := elsewhere.SmallDisk(t)
	s := start(t, "--data-dir", dir)
	kept := prices(1, 50_000)
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(kept...)), 201, tagOf(kept))
	for _, id := range []string{"it", "another"} {
		r := ask(t, "PUT", s.url+"/datasets/"+id, octets(prices(2, 100_000)...))
		wantProblem(t, r, 507, "", -1)
		wantNoInternals(t, r, dir)
	}
	holds(t, s.url, "it", kept)
	if !strings.Contains(s.log.String(), "no space left on device") {
		t.Errorf("the log does not tell why:\n%s", s.log)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 2 {
		t.Errorf("%q, %v", names, err)
	}
	wantBare(t, ask(t, "PUT", s.url+"/datasets/another", octets(kept[:100]...)), 201, tagOf(kept[:100]))
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// Root may write where nobody may: so a process of its own becomes somebody
// else.
func TestADirectoryThatTurnsReadOnlyIsA500(t *testing.T) {
	if elsewhere.Run(t, nil) {
		return
	}
	dir := filepath.Join(elsewhere.Nobody(t), "data")
	s := start(t, "--data-dir", dir)
	kept := prices(1, 1000)
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(kept...)), 201, tagOf(kept))
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, r := range []reply{
		ask(t, "PUT", s.url+"/datasets/it", octets(prices(2, 10)...)),
		ask(t, "PUT", s.url+"/datasets/another", octets(prices(2, 10)...)),
		ask(t, "DELETE", s.url+"/datasets/it", nil),
	} {
		wantProblem(t, r, 500, "", -1)
		wantNoInternals(t, r, dir)
	}
	holds(t, s.url, "it", kept)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(kept...)), 204, tagOf(kept))
	wantBare(t, ask(t, "DELETE", s.url+"/datasets/it", nil), 204, "")
}
