package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// wholeFile returns the file of the dataset a with the series.
func wholeFile(t testing.TB, want []float64) []byte {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, 1<<30)
	put(t, s, "a", want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, fileName("a")))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// setsAside opens a directory in which a is damaged and b is not.
func setsAside(t *testing.T, damaged []byte) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	put(t, s, "b", series(2, 20))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, fileName("a")), damaged)
	s = open(t, dir, 1<<20)
	if s.Get("a") != nil {
		t.Error("it is served")
	}
	holds(t, s, "b", series(2, 20))
	if got, err := os.ReadFile(filepath.Join(dir, damagedName, fileName("a"))); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("it was not set aside as it was: %v", err)
	}
	// Its place is free again, and it stays where it is.
	put(t, s, "a", series(3, 5))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	holds(t, open(t, dir, 1<<20), "a", series(3, 5))
	if left := files(t, dir); !slices.Equal(left, []string{damagedName, fileName("a"), fileName("b")}) {
		t.Errorf("there are %q", left)
	}
}

// onDisk writes the file and returns it, to be damaged in place.
func onDisk(t *testing.T, whole []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, whole)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func readBack(t *testing.T, f *os.File, id string) (*Version, error) {
	t.Helper()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	h, err := readHeader(f, id)
	if err != nil {
		return nil, err
	}
	return readSeries(f, h)
}

func isDamage(err error) bool {
	var bad damage
	return errors.As(err, &bad)
}

func TestAFlippedBitIsSeenInEveryPlace(t *testing.T) {
	whole := wholeFile(t, series(1, 30))
	f := onDisk(t, whole)
	poke := func(at int, b byte) {
		if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	for at := range whole {
		for bit := range 8 {
			poke(at, whole[at]^1<<bit)
			if _, err := readBack(t, f, "a"); !isDamage(err) {
				t.Fatalf("byte %d, bit %d: %v", at, bit, err)
			}
		}
		poke(at, whole[at])
	}
	if v, err := readBack(t, f, "a"); err != nil || !slices.Equal(v.Series, series(1, 30)) {
		t.Errorf("without damage: %v", err)
	}
	if _, err := readBack(t, f, "b"); !isDamage(err) {
		t.Errorf("the file of a as that of b: %v", err)
	}
}

func TestATruncatedFileIsSeenAtEveryLength(t *testing.T) {
	whole := wholeFile(t, series(1, 2000))
	for _, step := range []int{97, 8} {
		f := onDisk(t, whole)
		for n := (len(whole) - 1) / step * step; n >= 0; n -= step {
			if err := f.Truncate(int64(n)); err != nil {
				t.Fatal(err)
			}
			if _, err := readBack(t, f, "a"); !isDamage(err) {
				t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
			}
		}
	}
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	whole := wholeFile(t, series(1, 100))
	flipped := func(at int) []byte {
		bad := slices.Clone(whole)
		bad[at] ^= 0x10
		return bad
	}
	// sealed is a header that somebody has written so, with the right checksum.
	sealed := func(change func(b []byte)) []byte {
		bad := slices.Clone(whole)
		change(bad)
		binary.LittleEndian.PutUint32(bad[132:], crc32.Checksum(bad[:132], castagnoli))
		return bad
	}
	for name, bad := range map[string][]byte{
		"empty":                     {},
		"a text":                    []byte("hello"),
		"a long text":               []byte(strings.Repeat("hello ", 1000)),
		"zeros":                     make([]byte, len(whole)),
		"magic flipped":             flipped(0),
		"format flipped":            flipped(8),
		"id flipped":                flipped(16),
		"bars flipped":              flipped(80),
		"time flipped":              flipped(90),
		"etag flipped":              flipped(100),
		"checksum flipped":          flipped(128),
		"checksum's own flipped":    flipped(132),
		"first float flipped":       flipped(136),
		"last float flipped":        flipped(len(whole) - 1),
		"header only":               whole[:headerSize],
		"cut by one":                whole[:len(whole)-1],
		"cut by a bar":              whole[:len(whole)-8],
		"longer by one":             append(slices.Clone(whole), 0),
		"longer by a bar":           append(slices.Clone(whole), make([]byte, 8)...),
		"its end in zeros":          append(slices.Clone(whole[:500]), make([]byte, len(whole)-500)...),
		"of a format that will be":  sealed(func(b []byte) { b[8] = 2 }),
		"of another dataset":        sealed(func(b []byte) { b[16] = 'b' }),
		"of a long id":              sealed(func(b []byte) { b[12] = 65 }),
		"of negative bars":          sealed(func(b []byte) { binary.LittleEndian.PutUint64(b[80:], 1<<63) }),
		"of bars beyond any memory": sealed(func(b []byte) { binary.LittleEndian.PutUint64(b[80:], 1<<61+100) }),
	} {
		t.Run(name, func(t *testing.T) { setsAside(t, bad) })
	}
}

func TestWhatIsSetAsideReplacesNothingThatWas(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		write(t, filepath.Join(dir, fileName("a")), []byte(fmt.Sprint("damage ", i)))
		s := open(t, dir, 1<<20)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, suffix := range []string{"", ".1", ".2"} {
		got, err := os.ReadFile(filepath.Join(dir, damagedName, fileName("a")+suffix))
		if want := fmt.Sprint("damage ", i); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestForeignFilesAreLeftAloneAndUnfinishedOnesRemoved(t *testing.T) {
	dir := t.TempDir()
	foreign := []string{
		"README", ".hidden", "set-A.dataset", "set-.dataset", "set-a.dataset.bak", "set-..dataset", "a.dataset", "new-", "new-abc",
		"new-0123456789ABCDEF0123456789abcdef", "new-0123456789abcdef0123456789abcdef0", "LOCK", "Damaged",
	}
	for _, name := range foreign {
		write(t, filepath.Join(dir, name), []byte(name))
	}
	unfinished := "new-0123456789abcdef0123456789abcdef"
	write(t, filepath.Join(dir, unfinished), wholeFile(t, series(1, 10)))
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, 1<<20)
	if s.Count() != 0 {
		t.Errorf("%d datasets", s.Count())
	}
	for _, name := range foreign {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if left := files(t, dir); len(left) != len(foreign)+1 || slices.Contains(left, unfinished) {
		t.Errorf("there are %q", left)
	}
}

func TestWhatIsNoOrdinaryFileIsSetAsideUnopened(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, wholeFile(t, series(1, 10)))
	if err := os.Symlink(outside, filepath.Join(dir, fileName("a"))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, fileName("b")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, fileName("c")), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, 1<<20)
	if s.Count() != 0 {
		t.Errorf("%d datasets", s.Count())
	}
	if left := files(t, dir); !slices.Equal(left, []string{damagedName}) {
		t.Errorf("there are %q", left)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// Parsing must neither panic nor allocate what a header promises.
func FuzzAHeaderIsReadOrRefused(f *testing.F) {
	whole := wholeFile(f, series(1, 3))
	f.Add(whole[:headerSize])
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		var raw [headerSize]byte
		copy(raw[:], b)
		for _, seal := range []bool{false, true} {
			if seal {
				binary.LittleEndian.PutUint32(raw[132:], crc32.Checksum(raw[:132], castagnoli))
			}
			h, err := parseHeader(&raw)
			if err == nil && len(h.id) > maxID {
				t.Errorf("the id %q", h.id)
			}
		}
	})
}
