package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A time.Time of time.Now has a reading of the monotonic clock too, and what is
// measured between two of them does not see the wall clock jump, nor do timers
// and deadlines. To set the clock of a machine is not for a test, and a program
// without libc can't be given another. So this looks for what takes the
// monotonic reading away: only the date of a dataset may do so.
func TestNothingIsMeasuredByTheWallClock(t *testing.T) {
	wall := regexp.MustCompile(`\.(Unix(Milli|Micro|Nano)?|UTC|Local|In|AddDate)\(|\.(Round|Truncate)\(0\)`)
	for _, folder := range []string{"cmd", "encoding", "handlers", "kernel", "middleware"} {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if strings.Contains(filepath.ToSlash(path), "handlers/store/") {
				return nil
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text := strings.ReplaceAll(string(raw), "time.Unix(1, 0)", "") // the past, whatever the clock says
			if strings.Contains(text, "\"time\"") {
				if found := wall.FindString(text); found != "" {
					t.Errorf("%s uses %s", path, found)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
