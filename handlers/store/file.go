package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"texttax/encoding"
)

// A dataset's file is a header, then the floats. Everything is little-endian.
//
//	  0  8  magic
//	  8  4  format of the file, 1
//	 12  4  length of the id
//	 16 64  id, filled up with zeros
//	 80  8  bars
//	 88  8  when the version was made, in nanoseconds since 1970
//	 96 32  sha256 of the floats: the ETag
//	128  4  CRC-32C of the floats
//	132  4  CRC-32C of the header up to here
//	136  8 x bars
//
// What a start must read anyway is checked by CRC-32C, which costs about as
// much as reading it from memory; SHA-256 costs ten times that.
const (
	magic      = "\x89texttax"
	fileFormat = 1
	headerSize = 136
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// damage says why a file can't be used.
type damage string

func (d damage) Error() string { return string(d) }

// header is the start of a file.
type header struct {
	id       string
	bars     int64
	created  time.Time
	etag     [sha256.Size]byte
	checksum uint32 // of the floats
}

func (h *header) append(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, fileFormat)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.id)))
	var id [maxID]byte
	copy(id[:], h.id)
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.bars))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.created.UnixNano()))
	b = append(b, h.etag[:]...)
	b = binary.LittleEndian.AppendUint32(b, h.checksum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseHeader reads a header, or returns a damage.
func parseHeader(b *[headerSize]byte) (header, error) {
	var h header
	if string(b[:8]) != magic {
		return h, damage("it is no file of a dataset")
	}
	if crc32.Checksum(b[:132], castagnoli) != binary.LittleEndian.Uint32(b[132:]) {
		return h, damage("the checksum of its header is wrong")
	}
	// From here on the file is as somebody has written it.
	if f := binary.LittleEndian.Uint32(b[8:]); f != fileFormat {
		return h, damage(fmt.Sprintf("its format is %d, and only %d is known", f, fileFormat))
	}
	length := binary.LittleEndian.Uint32(b[12:])
	if length > maxID {
		return h, damage("its id is too long")
	}
	h.id = string(b[16:][:length])
	h.bars = int64(binary.LittleEndian.Uint64(b[80:]))
	h.created = time.Unix(0, int64(binary.LittleEndian.Uint64(b[88:]))).UTC()
	copy(h.etag[:], b[96:])
	h.checksum = binary.LittleEndian.Uint32(b[128:])
	return h, nil
}

// writeFile writes the version's file, and returns once it is on disk.
func writeFile(f *os.File, v *Version) error {
	raw := encoding.LittleEndian(v.Series)
	h := header{id: v.ID, bars: int64(len(v.Series)), created: v.Created, checksum: crc32.Checksum(raw, castagnoli)}
	if _, err := hex.Decode(h.etag[:], []byte(strings.Trim(v.ETag, `"`))); err != nil {
		return err
	}
	if _, err := f.Write(h.append(nil)); err != nil {
		return err
	}
	if _, err := f.Write(raw); err != nil {
		return err
	}
	return f.Sync()
}

// readHeader reads the start of the file of the dataset id. What is wrong with
// the file is a damage.
func readHeader(f *os.File, id string) (header, error) {
	info, err := f.Stat()
	if err != nil {
		return header{}, err
	}
	var raw [headerSize]byte
	if _, err := io.ReadFull(f, raw[:]); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return header{}, damage("it is too short")
	} else if err != nil {
		return header{}, err
	}
	h, err := parseHeader(&raw)
	switch {
	case err != nil:
		return h, err
	case h.id != id:
		return h, damage(fmt.Sprintf("it holds the dataset %q", h.id))
	case h.bars < 0 || h.bars != (info.Size()-headerSize)/8 || (info.Size()-headerSize)%8 != 0:
		return h, damage(fmt.Sprintf("it has %d bytes, which is not right for %d bars", info.Size(), h.bars))
	}
	return h, nil
}

// readSeries reads the rest of the file straight to where it will stay.
func readSeries(f *os.File, h header) (*Version, error) {
	series, err := encoding.ReadSeries(f, int(h.bars))
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, damage("it is too short")
	}
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(encoding.LittleEndian(series), castagnoli) != h.checksum {
		return nil, damage("the checksum of its series is wrong")
	}
	return &Version{ID: h.id, Series: series, ETag: quoted(h.etag), Created: h.created}, nil
}

// The names of files: datasets, versions that are not whole yet, and what the
// store has for itself. No two of a kind and no two kinds can meet, not even
// where a file system takes a and A for the same, or con for a device.
const (
	namePrefix      = "set-"
	nameSuffix      = ".dataset"
	temporaryPrefix = "new-"
	temporaryDigits = 32
	lockName        = "lock"
	damagedName     = "damaged"
)

// fileName returns the name of a dataset's file: +a stands for A.
func fileName(id string) string {
	var b bytes.Buffer
	b.WriteString(namePrefix)
	for i := range len(id) {
		c := id[i]
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('+')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	b.WriteString(nameSuffix)
	return b.String()
}

// idOf returns the id of the dataset whose file has the name, if it is the
// name of any.
func idOf(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutSuffix(rest, nameSuffix); !ok {
		return "", false
	}
	id := make([]byte, 0, len(rest))
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		if c == '+' && i+1 < len(rest) {
			i++
			c = rest[i] - ('a' - 'A')
		}
		id = append(id, c)
	}
	return string(id), ValidID(string(id)) && fileName(string(id)) == name
}

// isTemporary tells whether a file is one that save has begun.
func isTemporary(name string) bool {
	digits, ok := strings.CutPrefix(name, temporaryPrefix)
	return ok && len(digits) == temporaryDigits && strings.Trim(digits, "0123456789abcdef") == ""
}
