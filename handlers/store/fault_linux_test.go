package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"texttax/handlers/store/elsewhere"
)

func TestAFullDiskIsAnErrorAndTheOldVersionStays(t *testing.T) {
	if elsewhere.Run(t, elsewhere.Mounts()) {
		return
	}
	dir := elsewhere.SmallDisk(t)
	s := open(t, dir, 1<<30)
	put(t, s, "a", series(1, 60_000))
	for id, n := range map[string]int{"a": 90_000, "b": 100_000, "c": 1_000_000} {
		_, _, err := s.Put(id, series(2, n), anyway)
		var full *FullError
		if !errors.As(err, &full) || !errors.Is(err, syscall.ENOSPC) || strings.Contains(full.Detail, "/") {
			t.Errorf("%s: %v", id, err)
		}
	}
	holds(t, s, "a", series(1, 60_000))
	if left := files(t, dir); !slices.Equal(left, []string{fileName("a")}) || s.Count() != 1 || s.Bytes() != 480_000 || s.reserved != 0 || len(s.doubtful) != 0 {
		t.Errorf("there are %q, %d datasets of %d bytes, %d reserved, %d in doubt", left, s.Count(), s.Bytes(), s.reserved, len(s.doubtful))
	}
	put(t, s, "b", series(3, 1000)) // there is room for that
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, 1<<30)
	holds(t, s, "a", series(1, 60_000))
	holds(t, s, "b", series(3, 1000))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALimitOnTheSizeOfFilesIsAnErrorAndNotTheEnd(t *testing.T) {
	if elsewhere.Run(t, nil) {
		return
	}
	dir := t.TempDir()
	s := open(t, dir, 1<<30)
	put(t, s, "a", series(1, 1000))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100_000, Max: 100_000}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		var full *FullError
		if _, _, err := s.Put(id, series(2, 20_000), anyway); !errors.As(err, &full) || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("%s: %v", id, err)
		}
	}
	holds(t, s, "a", series(1, 1000))
	if left := files(t, dir); !slices.Equal(left, []string{fileName("a")}) {
		t.Errorf("there are %q", left)
	}
	put(t, s, "b", series(3, 10_000))
}

// Root may write where nobody may: so a process of its own becomes somebody
// else.
func TestADirectoryThatTurnsReadOnlyKeepsItsDatasets(t *testing.T) {
	if elsewhere.Run(t, nil) {
		return
	}
	dir := filepath.Join(elsewhere.Nobody(t), "data")
	s := open(t, dir, 1<<30)
	put(t, s, "a", series(1, 1000))
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	var full *FullError
	for _, id := range []string{"a", "b"} {
		if _, _, err := s.Put(id, series(2, 10), anyway); !errors.Is(err, syscall.EACCES) || errors.As(err, &full) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := s.Delete("a", anyway); !errors.Is(err, syscall.EACCES) {
		t.Errorf("%v", err)
	}
	holds(t, s, "a", series(1, 1000))
	if left := files(t, dir); !slices.Equal(left, []string{fileName("a")}) || s.Count() != 1 {
		t.Errorf("there are %q", left)
	}
	// At the next start it is the same, and what is damaged there is an error,
	// since it can't be set aside.
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", series(2, 10))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, fileName("b")), []byte("damage"))
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(Config{Max: 1 << 30, Dir: dir}); err == nil || !strings.Contains(err.Error(), "can't be set aside") {
		t.Errorf("%v, %v", s, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
