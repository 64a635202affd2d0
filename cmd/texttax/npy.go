package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"

	"texttax/encoding"
)

// npyHeader matches what numpy.save writes for an array of one dimension, with
// the keys in the order that numpy keeps.
var npyHeader = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\{'descr': '([<>|=][a-zA-Z][0-9]+)', 'fortran_order': (?:True|False), 'shape': \(([0-9]+),\), \} *\n$`)
})

// npyNumbers reads element i of an array by its type.
var npyNumbers = map[string]func(data []byte, i int) (float64, bool){
	"<f4": func(b []byte, i int) (float64, bool) {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))), true
	},
	"|i1": func(b []byte, i int) (float64, bool) { return float64(int8(b[i])), true },
	"|u1": func(b []byte, i int) (float64, bool) { return float64(b[i]), true },
	"<i2": func(b []byte, i int) (float64, bool) {
		return float64(int16(binary.LittleEndian.Uint16(b[2*i:]))), true
	},
	"<u2": func(b []byte, i int) (float64, bool) { return float64(binary.LittleEndian.Uint16(b[2*i:])), true },
	"<i4": func(b []byte, i int) (float64, bool) {
		return float64(int32(binary.LittleEndian.Uint32(b[4*i:]))), true
	},
	"<u4": func(b []byte, i int) (float64, bool) { return float64(binary.LittleEndian.Uint32(b[4*i:])), true },
	"<i8": func(b []byte, i int) (float64, bool) { return exactInt(int64(binary.LittleEndian.Uint64(b[8*i:]))) },
	"<u8": func(b []byte, i int) (float64, bool) { return exactUint(binary.LittleEndian.Uint64(b[8*i:])) },
}

// readNPY reads an array of numpy.save, of one dimension and little-endian
// numbers.
func readNPY(file []byte, _ string, req *encoding.Request) error {
	const magic = "\x93NUMPY"
	if !bytes.HasPrefix(file, []byte(magic)) || len(file) < len(magic)+4 {
		return errors.New("the file is no array of numpy.save: its first bytes are others")
	}
	version, rest := file[len(magic)], file[len(magic)+2:]
	var length, width int64
	switch {
	case version == 1:
		length, width = int64(binary.LittleEndian.Uint16(rest)), 2
	case (version == 2 || version == 3) && len(rest) >= 4:
		length, width = int64(binary.LittleEndian.Uint32(rest)), 4
	default:
		return fmt.Errorf("version %d of the format is not read", version)
	}
	if rest = rest[width:]; length > int64(len(rest)) {
		return errors.New("the file is cut within its header")
	}
	header, data := rest[:length], rest[length:]
	match := npyHeader().FindSubmatch(header)
	if match == nil {
		return fmt.Errorf("the array must be of numbers in one dimension, not %.200q", bytes.TrimSpace(header))
	}
	kind := string(match[1])
	number, known := npyNumbers[kind]
	if !known && kind != "<f8" {
		return fmt.Errorf("the array is of the type %s; read are <f8, <f4, and integers of 1 to 8 bytes, little-endian", kind)
	}
	size := int64(kind[2] - '0')
	n, err := strconv.ParseInt(string(match[2]), 10, 64)
	if err != nil || n > math.MaxInt64/size || n*size != int64(len(data)) {
		return fmt.Errorf("the header announces %s numbers of %d bytes, and %d bytes follow it", match[2], size, len(data))
	}
	if kind == "<f8" {
		return encoding.Octet.Decode(data, req)
	}
	return setNumbers(req, int(n), func(i int) (float64, bool) { return number(data, i) })
}
