// Package store keeps datasets: series under ids, in memory, and in a
// directory too if it is given one, so that they survive the process.
//
// A dataset has one current version. Versions never change: who has got one
// keeps it, whole and without a copy, whatever happens to the id meanwhile.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"texttax/encoding"
)

// Version is one state of a dataset. Nobody may write to it.
type Version struct {
	ID      string
	Series  []float64
	ETag    string    // strong: the quoted sha256 of the little-endian floats
	Created time.Time // when this version came to be, in UTC; zero if it was always there
}

// Bytes is what the version counts against the limit.
func (v *Version) Bytes() int64 {
	if v == nil {
		return 0
	}
	return 8 * int64(len(v.Series))
}

// ETag returns the strong entity tag of a series.
func ETag(series []float64) string {
	sum := sha256.Sum256(encoding.LittleEndian(series))
	return quoted(sum)
}

func quoted(sum [sha256.Size]byte) string { return `"` + hex.EncodeToString(sum[:]) + `"` }

// maxID is the longest id.
const maxID = 64

// ValidID tells whether a dataset may have the id: 1 to 64 of the characters
// A-Z a-z 0-9 . _ -, but not . and .., which mean something else in a URL.
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > maxID || id == "." || id == ".." {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

const (
	// DefaultMax is the limit of a store that nobody has limited, in bytes.
	DefaultMax = 1 << 30
	// MaxCount is the most datasets of a store: small ones cost more than
	// their bytes.
	MaxCount = 100_000
)

// Config is what a Store needs to know.
type Config struct {
	Max int64        // most bytes of all versions that are current
	Dir string       // where versions are kept on disk; "" keeps them in memory only
	Log *slog.Logger // told of files that can't be used; nil for nobody
}

// ErrNotFound says that there is no dataset with the id.
var ErrNotFound = errors.New("there is no such dataset")

var errClosed = errors.New("the store is closed")

// FullError says that a version does not fit. Its text is made for clients.
type FullError struct {
	Detail string
	Cause  error // the disk's own words; nil if it was not the disk
}

func (e *FullError) Error() string { return e.Detail }
func (e *FullError) Unwrap() error { return e.Cause }

// Store keeps datasets. Its methods may be called by many goroutines.
type Store struct {
	max      int64
	maxCount int
	disk     *directory // nil if there is none

	open   sync.RWMutex // read-held by writers, so that Close waits for them
	closed bool         // guarded by open

	mu       sync.RWMutex // guards what follows; never held while the disk works
	current  map[string]*Version
	stored   int64 // bytes of current
	reserved int64 // more bytes, for versions that are being written
	coming   int   // ids without a version that get one
	writers  map[string]*writer
	// doubtful are the ids whose file may differ from the current version,
	// since the disk failed halfway.
	doubtful map[string]bool
}

// writer makes the writers of one id take turns.
type writer struct {
	sync.Mutex
	users int // that hold it or wait for it; guarded by Store.mu
}

// New returns a Store in memory, for at most max bytes.
func New(max int64) *Store {
	return &Store{
		max:      max,
		maxCount: MaxCount,
		current:  map[string]*Version{},
		writers:  map[string]*writer{},
		doubtful: map[string]bool{},
	}
}

// Open returns a Store with the datasets that the directory has, which it
// makes if need be. The directory belongs to this Store alone until Close.
func Open(config Config) (*Store, error) {
	s := New(config.Max)
	if config.Dir == "" {
		return s, nil
	}
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	disk, err := openDirectory(config.Dir, log)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", config.Dir, err)
	}
	if err := disk.load(s.adopt); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", config.Dir, err), disk.close())
	}
	s.disk = disk
	return s, nil
}

// adopt makes room for a version of the given size that is on disk already,
// reads it, and makes it current.
func (s *Store) adopt(bytes int64, read func() (*Version, error)) error {
	s.mu.Lock()
	over := s.stored+s.reserved+bytes > s.max || len(s.current)+s.coming >= s.maxCount
	if !over {
		s.reserved += bytes
		s.coming++
	}
	s.mu.Unlock()
	if over {
		// To leave some out would make them look deleted.
		return fmt.Errorf("its datasets are over the limit of %d bytes or %d datasets; raise the limit, or move some files away", s.max, s.maxCount)
	}
	v, err := read()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= bytes
	s.coming--
	if err != nil {
		return err
	}
	s.current[v.ID] = v
	s.stored += bytes
	return nil
}

// Close waits for the writers and gives the directory free. Nothing can be
// written after it.
func (s *Store) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed || s.disk == nil {
		s.closed = true
		return nil
	}
	s.closed = true
	return s.disk.close()
}

// Get returns the current version of a dataset, or nil.
func (s *Store) Get(id string) *Version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current[id]
}

// List returns the current versions, ordered by id.
func (s *Store) List() []*Version {
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.current))
	s.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Version) int {
		if a.ID < b.ID {
			return -1
		}
		return 1 // no two are the same
	})
	return all
}

// Count is the number of datasets.
func (s *Store) Count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.current)
}

// Bytes is the size of all current versions.
func (s *Store) Bytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stored
}

// Put makes a copy of series the current version of a dataset, and returns it
// and whether there was one before. Once it returns without an error the
// version is on disk, if the store has one; on an error nothing has changed. A
// version that is already current stays as it is.
//
// allow is asked first, with the current version or nil, whether the version
// may be replaced; no other writer comes between the two. Its error is returned
// as it is. What does not fit is a *FullError.
func (s *Store) Put(id string, series []float64, allow func(*Version) error) (v *Version, replaced bool, err error) {
	if !ValidID(id) {
		return nil, false, fmt.Errorf("%q can't be the id of a dataset", id)
	}
	etag := ETag(series)
	release, err := s.write(id)
	if err != nil {
		return nil, false, err
	}
	defer release()
	old := s.Get(id)
	if err := allow(old); err != nil {
		return nil, false, err
	}
	if old != nil && old.ETag == etag && !s.doubts(id) {
		return old, true, nil
	}
	// The old version's bytes can be given to the new one: it is there until
	// the new one is, but no third one is.
	added := 8*int64(len(series)) - old.Bytes()
	if err := s.reserve(added, old == nil); err != nil {
		return nil, false, err
	}
	v = &Version{ID: id, Series: slices.Clone(series), ETag: etag, Created: time.Now().UTC().Truncate(time.Millisecond)}
	doubt := false
	if s.disk != nil {
		doubt, err = s.disk.save(v)
	}
	if err != nil && doubt && old == nil {
		doubt = s.disk.remove(id) != nil
	}
	if isFull(err) {
		err = &FullError{Detail: "the disk that keeps the datasets is full", Cause: err}
	}
	s.settle(id, old, v, added, err, doubt)
	if err != nil {
		return nil, false, err
	}
	return v, old != nil, nil
}

// Delete removes a dataset, as Put replaces it: durably, and if allow lets it.
// If there is none it returns ErrNotFound.
func (s *Store) Delete(id string, allow func(*Version) error) error {
	release, err := s.write(id)
	if err != nil {
		return err
	}
	defer release()
	old := s.Get(id)
	if old == nil {
		return ErrNotFound
	}
	if err := allow(old); err != nil {
		return err
	}
	if s.disk != nil {
		err = s.disk.remove(id)
	}
	s.settle(id, old, nil, -old.Bytes(), err, true)
	return err
}

// write waits until the caller is the only writer of the id. It returns the
// function that ends that.
func (s *Store) write(id string) (release func(), err error) {
	s.open.RLock()
	if s.closed {
		s.open.RUnlock()
		return nil, errClosed
	}
	s.mu.Lock()
	w := s.writers[id]
	if w == nil {
		w = new(writer)
		s.writers[id] = w
	}
	w.users++
	s.mu.Unlock()
	w.Lock()
	return func() {
		w.Unlock()
		s.mu.Lock()
		if w.users--; w.users == 0 {
			delete(s.writers, id)
		}
		s.mu.Unlock()
		s.open.RUnlock()
	}, nil
}

func (s *Store) doubts(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.doubtful[id]
}

// reserve sets bytes aside for a version before it is written, so that
// writers can't pass the limit together. Replacing by less needs none.
func (s *Store) reserve(added int64, isNew bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if used := s.stored + s.reserved; added > 0 && added > s.max-used {
		return &FullError{Detail: fmt.Sprintf("%d bytes more are over the limit of %d bytes for all datasets, of which %d are in use", added, s.max, used)}
	}
	if isNew {
		if len(s.current)+s.coming >= s.maxCount {
			return &FullError{Detail: fmt.Sprintf("there are %d datasets already, which is the limit", s.maxCount)}
		}
		s.coming++
	}
	s.reserved += max(added, 0)
	return nil
}

// settle ends a write: it turns what was reserved into what is stored, or
// gives it back after a failure, which may leave a doubt about what is on disk.
// next is nil for a deletion.
func (s *Store) settle(id string, old, next *Version, added int64, failure error, doubt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next != nil {
		s.reserved -= max(added, 0)
		if old == nil {
			s.coming--
		}
	}
	if failure != nil {
		if doubt {
			s.doubtful[id] = true
		}
		return
	}
	delete(s.doubtful, id)
	s.stored += added
	if next == nil {
		delete(s.current, id)
	} else {
		s.current[id] = next
	}
}
