package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// anyway lets every write pass.
func anyway(*Version) error { return nil }

// series makes one of n bars that differs from that of any other seed in each.
func series(seed, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = float64(seed) + float64(i)/1e6
	}
	return s
}

func open(t testing.TB, dir string, max int64) *Store {
	t.Helper()
	s, err := Open(Config{Max: max, Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, s *Store, id string, want []float64) *Version {
	t.Helper()
	v, _, err := s.Put(id, want, anyway)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// holds checks that the dataset is just the series.
func holds(t testing.TB, s *Store, id string, want []float64) {
	t.Helper()
	v := s.Get(id)
	if v == nil {
		t.Errorf("%s is not there", id)
	} else if !slices.Equal(v.Series, want) || v.ETag != ETag(want) || v.ID != id {
		t.Errorf("%s is %s with %d bars and ETag %s", id, v.ID, len(v.Series), v.ETag)
	}
}

// files lists the names in a directory, but for the lock.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// bothKinds runs a test on a store in memory and on one on disk.
func bothKinds(t *testing.T, test func(t *testing.T, dir string)) {
	t.Run("in memory", func(t *testing.T) { test(t, "") })
	t.Run("on disk", func(t *testing.T) { test(t, t.TempDir()) })
}

func TestAVersionStaysAsItIsWhateverHappensToItsID(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		s := open(t, dir, 1<<20)
		mine := series(1, 100)
		first, replaced, err := s.Put("a", mine, anyway)
		if err != nil || replaced {
			t.Fatalf("replaced %v, %v", replaced, err)
		}
		clear(mine) // the caller's memory is the caller's
		if _, replaced, err = s.Put("a", series(2, 50), anyway); err != nil || !replaced {
			t.Fatalf("replaced %v, %v", replaced, err)
		}
		holds(t, s, "a", series(2, 50))
		if err := s.Delete("a", anyway); err != nil {
			t.Fatal(err)
		}
		if s.Get("a") != nil || s.Count() != 0 || s.Bytes() != 0 {
			t.Errorf("%d datasets of %d bytes are left", s.Count(), s.Bytes())
		}
		if !slices.Equal(first.Series, series(1, 100)) || first.ETag != ETag(series(1, 100)) || time.Since(first.Created) > time.Minute {
			t.Error("the first version has changed")
		}
		if err := s.Delete("a", anyway); !errors.Is(err, ErrNotFound) {
			t.Errorf("the second deletion gives %v", err)
		}
	})
}

func TestTheETagIsTheHashOfTheLittleEndianFloats(t *testing.T) {
	// printf '\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\x04\x40' | sha256sum
	const want = `"c6ad216abff91aa37070d9012c162428d6161215fb7d8c030338f8f85cc0ac30"`
	if got := ETag([]float64{1, 2.5}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTheSameSeriesAgainChangesNothing(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		s := open(t, dir, 1<<20)
		first := put(t, s, "a", series(1, 10))
		if again := put(t, s, "a", series(1, 10)); again != first {
			t.Error("there is another version")
		}
	})
}

func TestAWriterIsAskedWithTheCurrentVersion(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		s := open(t, dir, 1<<20)
		no := errors.New("no")
		refuse := func(want *Version) func(*Version) error {
			return func(got *Version) error {
				if got != want {
					t.Errorf("asked with %v, want %v", got, want)
				}
				return no
			}
		}
		if _, _, err := s.Put("a", series(1, 10), refuse(nil)); err != no || s.Count() != 0 {
			t.Errorf("%v, %d datasets", err, s.Count())
		}
		v := put(t, s, "a", series(1, 10))
		if _, _, err := s.Put("a", series(2, 10), refuse(v)); err != no {
			t.Error(err)
		}
		if err := s.Delete("a", refuse(v)); err != no {
			t.Error(err)
		}
		holds(t, s, "a", series(1, 10))
	})
}

func TestOnlyOneOfManyCreatesADataset(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		s := open(t, dir, 1<<20)
		var won atomic.Int32
		var wait sync.WaitGroup
		for i := range 16 {
			wait.Go(func() {
				_, _, err := s.Put("a", series(i, 10), func(v *Version) error {
					if v != nil {
						return errors.New("there is one")
					}
					return nil
				})
				if err == nil {
					won.Add(1)
				}
			})
		}
		wait.Wait()
		if won.Load() != 1 || len(s.writers) != 0 {
			t.Errorf("%d have won, %d locks are left", won.Load(), len(s.writers))
		}
	})
}

func TestTheLimitIsOverAllDatasetsAndReplacingGivesBack(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		s := open(t, dir, 800)
		put(t, s, "a", series(1, 60))
		put(t, s, "b", series(2, 40))
		var full *FullError
		for id, n := range map[string]int{"c": 1, "a": 61} {
			if _, _, err := s.Put(id, series(3, n), anyway); !errors.As(err, &full) || !strings.Contains(full.Detail, "limit of 800") {
				t.Errorf("%d bars more in %s: %v", n, id, err)
			}
		}
		holds(t, s, "a", series(1, 60))
		if s.Get("c") != nil || s.Bytes() != 800 {
			t.Errorf("%d bytes", s.Bytes())
		}
		put(t, s, "a", series(4, 60)) // as large as before, though nothing is free
		put(t, s, "a", series(5, 10))
		put(t, s, "c", series(6, 50))
		if err := s.Delete("b", anyway); err != nil {
			t.Fatal(err)
		}
		put(t, s, "d", series(7, 40))
		if s.Bytes() != 800 || s.reserved != 0 || s.coming != 0 {
			t.Errorf("%d bytes, %d reserved, %d coming", s.Bytes(), s.reserved, s.coming)
		}
		if _, _, err := s.Put("e", series(8, math.MaxUint16), anyway); !errors.As(err, &full) {
			t.Errorf("far too much: %v", err)
		}
	})
}

func TestThereIsALimitOnTheNumberOfDatasets(t *testing.T) {
	s := open(t, "", 1<<20)
	s.maxCount = 2
	put(t, s, "a", series(1, 1))
	put(t, s, "b", series(1, 1))
	var full *FullError
	if _, _, err := s.Put("c", series(1, 1), anyway); !errors.As(err, &full) {
		t.Errorf("%v", err)
	}
	put(t, s, "b", series(2, 1))
	if err := s.Delete("a", anyway); err != nil {
		t.Fatal(err)
	}
	put(t, s, "c", series(1, 1))
}

func TestWritersTogetherDoNotPassTheLimit(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		const max = 8 * 1000
		s := open(t, dir, max)
		over := make(chan int64, 1)
		stop := make(chan struct{})
		var watch, wait sync.WaitGroup
		watch.Go(func() {
			for {
				s.mu.RLock()
				used := s.stored + s.reserved
				s.mu.RUnlock()
				if used > max {
					select {
					case over <- used:
					default:
					}
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
		for w := range 16 {
			wait.Go(func() {
				for round := range 20 {
					id := fmt.Sprint((w + round) % 20)
					_, _, err := s.Put(id, series(w, 1+(w*31+round*17)%200), anyway)
					var full *FullError
					if err != nil && !errors.As(err, &full) {
						t.Error(err)
					}
					if round%5 == 4 {
						if err := s.Delete(id, anyway); err != nil && !errors.Is(err, ErrNotFound) {
							t.Error(err)
						}
					}
				}
			})
		}
		wait.Wait()
		close(stop)
		watch.Wait()
		select {
		case used := <-over:
			t.Errorf("%d bytes were in use", used)
		default:
		}
		sum := int64(0)
		for _, v := range s.List() {
			sum += v.Bytes()
		}
		if sum != s.Bytes() || s.reserved != 0 || s.coming != 0 || len(s.writers) != 0 {
			t.Errorf("%d bytes are counted as %d, %d are reserved, %d datasets are coming, %d locks are left", sum, s.Bytes(), s.reserved, s.coming, len(s.writers))
		}
	})
}

func TestReadersSeeWholeVersionsWhileWritersReplaceThem(t *testing.T) {
	bothKinds(t, func(t *testing.T, dir string) {
		s := open(t, dir, 1<<20)
		stop := make(chan struct{})
		var readers, writers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					if v := s.Get("a"); v != nil {
						seed := int(v.Series[0])
						if !slices.Equal(v.Series, series(seed, 100+seed)) || v.ETag != ETag(v.Series) {
							t.Errorf("a version of %d bars is not that of %d", len(v.Series), seed)
							return
						}
					}
					select {
					case <-stop:
						return
					default:
						runtime.Gosched()
					}
				}
			})
		}
		for w := range 4 {
			writers.Go(func() {
				for round := range 25 {
					seed := w*100 + round
					if _, _, err := s.Put("a", series(seed, 100+seed), anyway); err != nil {
						t.Error(err)
					}
					if round%8 == 7 {
						if err := s.Delete("a", anyway); err != nil && !errors.Is(err, ErrNotFound) {
							t.Error(err)
						}
					}
				}
			})
		}
		writers.Wait()
		close(stop)
		readers.Wait()
	})
}

func TestDatasetsSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet", "there")
	s := open(t, dir, 1<<20)
	ids := []string{"a", "A", "con", "NUL", "-", "_", "...", ".a", "a.", "damaged", "lock", "new-0123", "a.dataset", strings.Repeat("Z", maxID)}
	for i, id := range ids {
		put(t, s, id, series(i, 1+i))
	}
	put(t, s, "gone", series(1, 1))
	if err := s.Delete("gone", anyway); err != nil {
		t.Fatal(err)
	}
	before := s.List()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Put("late", series(1, 1), anyway); err == nil {
		t.Error("a closed store can be written to")
	}
	s = open(t, dir, 1<<20)
	for i, id := range ids {
		holds(t, s, id, series(i, 1+i))
		if p := uintptr(unsafe.Pointer(&s.Get(id).Series[0])); p%8 != 0 {
			t.Errorf("%s lies at %x", id, p)
		}
	}
	after := s.List()
	for i, v := range after {
		if !v.Created.Equal(before[i].Created) || v.ID != before[i].ID || v.Created.IsZero() {
			t.Errorf("%s of %v has become %s of %v", before[i].ID, before[i].Created, v.ID, v.Created)
		}
	}
	if len(after) != len(ids) || s.Bytes() != 8*int64(len(ids)*(len(ids)+1)/2) {
		t.Errorf("%d datasets of %d bytes", len(after), s.Bytes())
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v", info.Mode())
	}
	for _, name := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s is %v", name, info.Mode())
		}
	}
}

func TestFileNamesCanNeitherMeetNorLeadOut(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"a", "A", "aB", "Ab", "AB", "ab", "b", "...", "-a", "a.", "con", "COM1", "a.dataset", strings.Repeat("A", maxID)} {
		name := fileName(id)
		if other := seen[strings.ToLower(name)]; other != "" {
			t.Errorf("%s and %s have the file %s", id, other, name)
		}
		seen[strings.ToLower(name)] = id
		if got, ok := idOf(name); !ok || got != id {
			t.Errorf("%s is read back from %s as %s", id, name, got)
		}
		if name != filepath.Base(name) || len(name) > 200 || strings.ToLower(name) != name || isTemporary(name) {
			t.Errorf("%s makes a bad name: %s", id, name)
		}
	}
	for _, name := range []string{
		"", "set-.dataset", "set-A.dataset", "set-+.dataset", "set-+1.dataset", "set-++a.dataset", "set-a", "a.dataset", "set-..dataset", "set-...dataset",
		"set-a b.dataset", "set-" + strings.Repeat("a", maxID+1) + ".dataset", "set-\x00.dataset",
	} {
		if id, ok := idOf(name); ok && fileName(id) != name || ok && !ValidID(id) {
			t.Errorf("%q is taken for the file of %q", name, id)
		}
	}
}

func TestIDsThatCanNotBe(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a b", "a\x00", "ä", "a+b", "a%2Fb", strings.Repeat("a", maxID+1)} {
		if _, _, err := s.Put(id, series(1, 1), anyway); err == nil || ValidID(id) {
			t.Errorf("%q is taken", id)
		}
	}
	if left := files(t, s.disk.root.Name()); len(left) != 0 {
		t.Errorf("there are %q", left)
	}
}

func TestADirectoryBelongsToOneStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	put(t, s, "a", series(1, 1))
	if _, err := Open(Config{Max: 1 << 20, Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process is using it") {
		t.Errorf("the second store: %v", err)
	}
	holds(t, s, "a", series(1, 1))
	put(t, s, "a", series(2, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	holds(t, open(t, dir, 1<<20), "a", series(2, 1))
}

func TestMoreOnDiskThanTheLimitIsAnErrorAndNotALoss(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	for i := range 10 {
		put(t, s, fmt.Sprint(i), series(i, 10))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Max: 799, Dir: dir}); err == nil || !strings.Contains(err.Error(), "limit of 799 bytes") {
		t.Errorf("%v", err)
	}
	s = open(t, dir, 800)
	for i := range 10 {
		holds(t, s, fmt.Sprint(i), series(i, 10))
	}
}

func TestADirectoryThatCanNotBeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/nothing/here"} {
		if s, err := Open(Config{Max: 1, Dir: dir}); err == nil {
			t.Errorf("%s is taken: %v", dir, s.Close())
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
}

// The last step of a write, after the file has its name, can only be made to
// fail by hand.
func TestAfterADoubtfulFailureTheNextWriteReachesTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1000)
	put(t, s, "a", series(1, 10))
	put(t, s, "b", series(1, 10))
	broken := errors.Join(syscall.EIO)
	fails := func() error { return broken }
	works := s.disk.syncDirectory

	s.disk.syncDirectory = fails
	if _, _, err := s.Put("a", series(2, 10), anyway); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, _, err := s.Put("c", series(2, 10), anyway); !errors.Is(err, broken) || s.Get("c") != nil {
		t.Errorf("%v", err)
	}
	if err := s.Delete("b", anyway); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	holds(t, s, "a", series(1, 10))
	holds(t, s, "b", series(1, 10))
	if s.Bytes() != 160 || s.reserved != 0 || s.coming != 0 {
		t.Errorf("%d bytes, %d reserved, %d coming", s.Bytes(), s.reserved, s.coming)
	}
	if left := files(t, dir); !slices.Equal(left, []string{"set-a.dataset"}) {
		t.Errorf("there are %q", left)
	}

	// The versions are those in memory, yet not those on disk.
	s.disk.syncDirectory = works
	put(t, s, "a", series(1, 10))
	put(t, s, "b", series(1, 10))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, 1000)
	holds(t, s, "a", series(1, 10))
	holds(t, s, "b", series(1, 10))
}

func TestADeletionThatFailedCanBeRepeated(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1000)
	put(t, s, "a", series(1, 10))
	works := s.disk.syncDirectory
	s.disk.syncDirectory = func() error { return syscall.EIO }
	if err := s.Delete("a", anyway); err == nil {
		t.Error("it did not fail")
	}
	s.disk.syncDirectory = works
	if err := s.Delete("a", anyway); err != nil || s.Count() != 0 {
		t.Error(err)
	}
}

func TestTheLogTellsOfWhatIsSetAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "set-a.dataset"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := Open(Config{Max: 1, Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []string{"level=ERROR", "file=set-a.dataset", "to=damaged/set-a.dataset", "too short"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s\nlacks %s", &log, want)
		}
	}
}
