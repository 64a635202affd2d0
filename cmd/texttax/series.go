package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"texttax/encoding"
)

// seriesFiles tells how to read a series from a file, by its extension. A
// reader is given the name of a column, and sets Close and Invalid of the
// request.
var seriesFiles = map[string]struct {
	read    func(file []byte, column string, req *encoding.Request) error
	columns bool // the file has columns with names
}{
	".f64":     {readRaw, false},
	".bin":     {readRaw, false},
	".npy":     {readNPY, false},
	".csv":     {readCSV, true},
	".parquet": {readParquet, true},
	".arrow":   {encoding.DecodeArrowColumn, true},
	".arrows":  {encoding.DecodeArrowColumn, true},
	".feather": {encoding.DecodeArrowColumn, true},
	".ipc":     {encoding.DecodeArrowColumn, true},
}

// readable lists the extensions of files that can be read.
const readable = ".f64 or .bin (little-endian float64), .npy, .csv, .parquet, .arrow, .arrows, .feather or .ipc (Arrow stream or file)"

// readSeries reads a series of prices from a file. The column is that of the
// closes in a file that has columns, "" for close. An error names the file, and
// the element at fault.
func readSeries(path, column string) ([]float64, error) {
	kind, known := seriesFiles[strings.ToLower(filepath.Ext(path))]
	if !known {
		return nil, fmt.Errorf("%s: the extension tells the format of a file; read are %s", path, readable)
	}
	if column != "" && !kind.columns {
		return nil, fmt.Errorf("%s: files like this one have no columns, and so no column %q", path, column)
	}
	if column == "" {
		column = "close"
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err // it names the file
	}
	var req encoding.Request
	if err = kind.read(file, column, &req); err == nil {
		if err = req.CheckPrices(); err == nil && len(req.Close) == 0 {
			err = errors.New("the series is empty")
		}
	}
	if err == nil {
		return req.Close, nil
	}
	// The checks know the column by the name that it has in a request.
	var fault *encoding.Error
	if errors.As(err, &fault) && fault.Field == "close" {
		fault.Field = column
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// invalid is the error for an element of the series.
func invalid(index int, format string, args ...any) *encoding.Error {
	return &encoding.Error{Kind: encoding.Invalid, Field: "close", Index: index, Detail: fmt.Sprintf(format, args...)}
}

func readRaw(file []byte, _ string, req *encoding.Request) error {
	if len(file)%8 != 0 {
		return fmt.Errorf("%d bytes are no whole number of float64, which have 8 each", len(file))
	}
	return encoding.Octet.Decode(file, req)
}

// readCSV reads the column of this name in the header.
func readCSV(file []byte, column string, req *encoding.Request) error {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))))
	r.ReuseRecord = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty; its first line should name the columns")
	}
	if err != nil {
		return err
	}
	at, count := -1, 0
	for i, name := range header {
		if strings.TrimSpace(name) == column {
			at = i
			count++
		}
	}
	switch {
	case count == 0:
		return fmt.Errorf("%s: there is no such column; the first line names %q", column, header[:min(len(header), 8)])
	case count > 1:
		return fmt.Errorf("%s: %d columns have this name", column, count)
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(at)
		text := strings.TrimSpace(record[at])
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0 && v <= math.MaxFloat64) {
			return invalid(len(req.Close), "a price must be a finite number above 0, not %.40q (line %d)", text, line)
		}
		req.Close = append(req.Close, v)
	}
}

// setNumbers makes n numbers the series. Each must be exact as float64.
func setNumbers(req *encoding.Request, n int, number func(i int) (v float64, exact bool)) error {
	req.Close = make([]float64, n)
	for i := range req.Close {
		v, exact := number(i)
		if !exact {
			return invalid(i, "float64 can't hold the number exactly")
		}
		req.Close[i] = v
	}
	return nil
}

func exactInt(v int64) (float64, bool) {
	f := float64(v)
	return f, f != 1<<63 && int64(f) == v // 2^63 can't be converted back
}

func exactUint(v uint64) (float64, bool) {
	f := float64(v)
	return f, f != 1<<64 && uint64(f) == v
}
