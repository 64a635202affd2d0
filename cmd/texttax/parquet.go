package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"texttax/encoding"
)

// readParquet reads a plain column of numbers.
func readParquet(raw []byte, column string, req *encoding.Request) (err error) {
	defer func() {
		// The library trusts what it reads.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the Parquet file is damaged: %v", cause)
		}
	}()
	r, err := file.NewParquetReader(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer r.Close()
	columns := r.MetaData().Schema
	at := columns.ColumnIndexByName(column)
	if at < 0 {
		var names []string
		for i := range min(columns.NumColumns(), 8) {
			names = append(names, columns.Column(i).Path())
		}
		return fmt.Errorf("%s: there is no such column; the file has %q", column, names)
	}
	c := columns.Column(at)
	if c.MaxRepetitionLevel() > 0 {
		return fmt.Errorf("%s: the column is of lists; it must be of numbers", column)
	}
	for i := range r.NumRowGroups() {
		chunk, err := r.RowGroup(i).Column(at)
		if err != nil {
			return err
		}
		if err := readChunk(chunk, c, req); err != nil {
			return err
		}
	}
	if int64(len(req.Close)) != r.NumRows() {
		return fmt.Errorf("the Parquet file is damaged: it has %d rows, and the column %d", r.NumRows(), len(req.Close))
	}
	return nil
}

// readChunk appends a row group's part of the column to the series.
func readChunk(chunk file.ColumnChunkReader, c *schema.Column, req *encoding.Request) error {
	exact := func(v float64) (float64, bool) { return v, true }
	integer, signed := isInteger(c)
	switch chunk := chunk.(type) {
	case *file.Float64ColumnChunkReader:
		return appendBatches(chunk.ReadBatch, exact, c, req)
	case *file.Float32ColumnChunkReader:
		return appendBatches(chunk.ReadBatch, func(v float32) (float64, bool) { return float64(v), true }, c, req)
	case *file.Int32ColumnChunkReader:
		if integer && signed {
			return appendBatches(chunk.ReadBatch, func(v int32) (float64, bool) { return float64(v), true }, c, req)
		} else if integer {
			return appendBatches(chunk.ReadBatch, func(v int32) (float64, bool) { return float64(uint32(v)), true }, c, req)
		}
	case *file.Int64ColumnChunkReader:
		if integer && signed {
			return appendBatches(chunk.ReadBatch, exactInt, c, req)
		} else if integer {
			return appendBatches(chunk.ReadBatch, func(v int64) (float64, bool) { return exactUint(uint64(v)) }, c, req)
		}
	}
	return fmt.Errorf("%s: the column is of the type %v (%v); it must be of float64, float32 or integers", c.Path(), c.PhysicalType(), c.LogicalType())
}

// isInteger tells whether integers in the column mean themselves, and not a
// time or a decimal.
func isInteger(c *schema.Column) (integer, signed bool) {
	switch t := c.LogicalType().(type) {
	case schema.IntLogicalType:
		return true, t.IsSigned()
	case *schema.IntLogicalType:
		return true, t.IsSigned()
	}
	plain := c.LogicalType() == nil || c.LogicalType().Equals(schema.NoLogicalType{})
	return plain && (c.PhysicalType() == parquet.Types.Int32 || c.PhysicalType() == parquet.Types.Int64), true
}

// appendBatches appends all values of a chunk. Rows without a value are null.
func appendBatches[T any](read func(int64, []T, []int16, []int16) (int64, int, error), number func(T) (float64, bool), c *schema.Column, req *encoding.Request) error {
	values, levels := make([]T, 8192), make([]int16, 8192)
	for {
		rows, n, err := read(int64(len(values)), values, levels, nil)
		if err != nil {
			return err
		}
		if rows == 0 {
			return nil
		}
		if rows > int64(len(values)) || n > len(values) {
			return errors.New("the Parquet file is damaged: a page has more values than it says")
		}
		next := 0
		for row := range rows {
			null := c.MaxDefinitionLevel() > 0 && levels[row] < c.MaxDefinitionLevel()
			if null || next == n {
				return invalid(len(req.Close), "must be a number, not null")
			}
			v, exact := number(values[next])
			next++
			if !exact {
				return invalid(len(req.Close), "float64 can't hold the number exactly")
			}
			req.Close = append(req.Close, v)
		}
		if len(req.Close) > math.MaxInt32 {
			return errors.New("the column has more than 2^31 rows")
		}
	}
}
