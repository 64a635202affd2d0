package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
)

// directory keeps versions on disk, a file each. A file gets its name only
// when it is whole, so that whatever has the name is whole too, unless the disk
// itself fails: that is what the checksums are for.
type directory struct {
	root *os.Root // so that no name can lead out of it
	self *os.File // the directory itself, to sync it
	lock *os.File
	log  *slog.Logger

	syncDirectory func() error // changed by tests only
}

// openDirectory makes the directory if need be, and locks it.
func openDirectory(path string, log *slog.Logger) (_ *directory, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		// Or the directory itself could be gone after a power failure.
		if err := syncPath(filepath.Dir(filepath.Clean(path))); err != nil {
			return nil, err
		}
	}
	survive()
	d := &directory{log: log}
	defer func() {
		if err != nil {
			_ = d.close()
		}
	}()
	if d.root, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	if d.self, err = d.root.Open("."); err != nil {
		return nil, err
	}
	d.syncDirectory = d.self.Sync
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	return d, lock(d.lock)
}

func syncPath(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// close unlocks the directory.
func (d *directory) close() error {
	var errs []error
	for _, f := range []*os.File{d.self, d.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	return errors.Join(errs...)
}

// save writes the version's file in place of the one before. If it fails, named
// tells whether the new one is there already, though maybe not for ever: else
// the one before is.
func (d *directory) save(v *Version) (named bool, err error) {
	name := fmt.Sprintf("%s%016x%016x", temporaryPrefix, rand.Uint64(), rand.Uint64())
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	if err = errors.Join(writeFile(f, v), f.Close()); err == nil {
		err = d.root.Rename(name, fileName(v.ID))
	}
	if err != nil {
		// What can't be removed now, on a disk that turned read-only, is at the
		// next start.
		return false, errors.Join(err, d.root.Remove(name))
	}
	return true, d.syncDirectory()
}

// remove removes the file of a dataset, if it is there.
func (d *directory) remove(id string) error {
	if err := d.root.Remove(fileName(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.syncDirectory()
}

// load gives the files of datasets to adopt, on all cores. It removes what
// save has left unfinished, and sets aside what is damaged.
func (d *directory) load(adopt func(bytes int64, read func() (*Version, error)) error) error {
	entries, err := d.self.ReadDir(-1)
	if err != nil {
		return err
	}
	var found []fs.DirEntry
	for _, e := range entries {
		name := e.Name()
		if _, ok := idOf(name); ok {
			found = append(found, e)
			continue
		}
		switch {
		case name == lockName, name == damagedName && e.IsDir():
		case isTemporary(name) && e.Type().IsRegular():
			if err := d.root.Remove(name); err != nil {
				d.log.Warn("an unfinished dataset can't be removed", "file", name, "cause", err)
			}
		default:
			d.log.Warn("a file in the data directory is none of a dataset's and is left alone", "file", name)
		}
	}
	var (
		next   atomic.Int64
		failed atomic.Bool
		errs   = make([]error, min(runtime.GOMAXPROCS(0), len(found)))
		wait   sync.WaitGroup
	)
	for worker := range errs {
		wait.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(found) {
					return
				}
				if errs[worker] = d.loadFile(found[i], adopt); errs[worker] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// loadFile gives one file to adopt, or sets it aside.
func (d *directory) loadFile(e fs.DirEntry, adopt func(bytes int64, read func() (*Version, error)) error) error {
	err := func() error {
		if !e.Type().IsRegular() { // opening a pipe would wait for ever
			return damage("it is no ordinary file")
		}
		f, err := d.root.Open(e.Name())
		if err != nil {
			return err
		}
		defer f.Close()
		id, _ := idOf(e.Name())
		h, err := readHeader(f, id)
		if err != nil {
			return err
		}
		return adopt(8*h.bars, func() (*Version, error) { return readSeries(f, h) })
	}()
	var bad damage
	if errors.As(err, &bad) || isUnreadable(err) {
		return d.setAside(e.Name(), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name(), err)
	}
	return nil
}

// setAside moves a file to where the next save can't replace it: somebody may
// yet get something out of it.
func (d *directory) setAside(name string, cause error) error {
	if err := d.root.Mkdir(damagedName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is damaged (%w) and can't be set aside: %w", name, cause, err)
	}
	to := path.Join(damagedName, name)
	for n := 1; ; n++ {
		if _, err := d.root.Lstat(to); err != nil {
			break // the name is free, or Rename will say what is wrong
		}
		to = path.Join(damagedName, fmt.Sprintf("%s.%d", name, n))
	}
	if err := d.root.Rename(name, to); err != nil {
		return fmt.Errorf("%s is damaged (%w) and can't be set aside: %w", name, cause, err)
	}
	d.log.Error("a dataset is damaged and not served; its file was set aside", "file", name, "to", to, "cause", cause)
	return d.syncDirectory()
}
