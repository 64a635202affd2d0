package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// sweepOut runs texttax sweep and returns what it prints.
func sweepOut(args ...string) (string, error) {
	var out bytes.Buffer
	err := run(context.Background(), append([]string{"sweep"}, args...), &out, io.Discard)
	return out.String(), err
}

// write makes a file and returns its path.
func write(t testing.TB, name string, contents []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func npy(version byte, descr, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	file := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		file = binary.LittleEndian.AppendUint16(file, uint16(len(header)))
	} else {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(header)))
	}
	return slices.Concat(file, []byte(header), data)
}

// record is a table with a column of this name beside another.
func record(name string, build func(*array.Float64Builder)) arrow.Record {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	build(b)
	column := b.NewArray()
	text := array.NewStringBuilder(memory.DefaultAllocator)
	for range column.Len() {
		text.Append("x")
	}
	fields := []arrow.Field{{Name: "symbol", Type: arrow.BinaryTypes.String}, {Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}}
	return array.NewRecord(arrow.NewSchema(fields, nil), []arrow.Array{text.NewArray(), column}, int64(column.Len()))
}

func arrowFile(t testing.TB, r arrow.Record, options ...ipc.Option) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "arrow"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := ipc.NewFileWriter(f, append(options, ipc.WithSchema(r.Schema()))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(r), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func arrowStream(t testing.TB, r arrow.Record, options ...ipc.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(options, ipc.WithSchema(r.Schema()))...)
	if err := errors.Join(w.Write(r), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// parquetFile has one column, in row groups of at most so many rows. Rows
// without a value are null.
func parquetFile[T any](t testing.TB, node schema.Node, values []T, null int, groupRows int, write func(file.ColumnChunkWriter, []T, []int16) error) []byte {
	t.Helper()
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{node}, -1)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy))))
	row := 0
	for group := range slices.Chunk(values, groupRows) {
		var levels []int16
		var there []T
		for _, v := range group {
			if row == null {
				levels = append(levels, 0)
			} else {
				levels = append(levels, 1)
				there = append(there, v)
			}
			row++
		}
		rows := w.AppendRowGroup()
		chunk, err := rows.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(chunk, there, levels), chunk.Close(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func parquetFloats(t testing.TB, name string, values []float64, null int) []byte {
	return parquetFile(t, schema.NewFloat64Node(name, parquet.Repetitions.Optional, -1), values, null, 60_000,
		func(w file.ColumnChunkWriter, values []float64, levels []int16) error {
			_, err := w.(*file.Float64ColumnChunkWriter).WriteBatch(values, levels, nil)
			return err
		})
}

func parquetInts(t testing.TB, node schema.Node, values []int64) []byte {
	return parquetFile(t, node, values, -1, 1000, func(w file.ColumnChunkWriter, values []int64, _ []int16) error {
		_, err := w.(*file.Int64ColumnChunkWriter).WriteBatch(values, nil, nil)
		return err
	})
}

func TestTheSameSeriesInEveryFileGivesTheSameResults(t *testing.T) {
	series := gbm42.Close()
	raw := encode(t, encoding.Octet, &encoding.Request{Close: series})
	var text strings.Builder
	text.WriteString("\xef\xbb\xbfdate, close ,volume\n")
	for i, v := range series {
		fmt.Fprintf(&text, "\"2020-01-01\",%v,%d\n", v, i)
	}
	table := record("close", func(b *array.Float64Builder) { b.AppendValues(series, nil) })
	want, err := sweepOut("--dataset", "gbm42", "--lengths", "6,20")
	if err != nil || !strings.HasPrefix(want, "length,pnl,trades,open\n6,-5165.584357716994,57029,1\n20,") {
		t.Fatalf("%q, %v", want, err)
	}
	for name, contents := range map[string][]byte{
		"close.f64":     raw,
		"close.BIN":     raw,
		"v1.npy":        npy(1, "<f8", "(150000,)", raw),
		"v2.npy":        npy(2, "<f8", "(150000,)", raw),
		"close.csv":     []byte(text.String()),
		"crlf.csv":      []byte(strings.ReplaceAll(text.String(), "\n", "\r\n")),
		"close.parquet": parquetFloats(t, "close", series, -1),
		"stream.arrows": arrowStream(t, table),
		"file.arrow":    arrowFile(t, table),
		"zstd.feather":  arrowFile(t, table, ipc.WithZstd()),
		"lz4.ipc":       arrowFile(t, table, ipc.WithLZ4()),
	} {
		if got, err := sweepOut("--close", write(t, name, contents), "--lengths", "6,20"); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestIntegersAndFloat32AreReadExactly(t *testing.T) {
	want := []float64{100, 3, 120, 90}
	data := func(size int, put func([]byte, float64)) []byte {
		b := make([]byte, size*len(want))
		for i, v := range want {
			put(b[i*size:], v)
		}
		return b
	}
	le := binary.LittleEndian
	for name, contents := range map[string][]byte{
		"f4.npy":     npy(1, "<f4", "(4,)", data(4, func(b []byte, v float64) { le.PutUint32(b, math.Float32bits(float32(v))) })),
		"i1.npy":     npy(1, "|i1", "(4,)", data(1, func(b []byte, v float64) { b[0] = byte(v) })),
		"u1.npy":     npy(1, "|u1", "(4,)", data(1, func(b []byte, v float64) { b[0] = byte(v) })),
		"i2.npy":     npy(1, "<i2", "(4,)", data(2, func(b []byte, v float64) { le.PutUint16(b, uint16(v)) })),
		"u4.npy":     npy(1, "<u4", "(4,)", data(4, func(b []byte, v float64) { le.PutUint32(b, uint32(v)) })),
		"i8.npy":     npy(3, "<i8", "(4,)", data(8, func(b []byte, v float64) { le.PutUint64(b, uint64(v)) })),
		"u8.npy":     npy(1, "<u8", "(4,)", data(8, func(b []byte, v float64) { le.PutUint64(b, uint64(v)) })),
		"i8.parquet": parquetInts(t, schema.NewInt64Node("close", parquet.Repetitions.Required, -1), []int64{100, 3, 120, 90}),
		"u8.parquet": parquetInts(t, schema.Must(schema.NewPrimitiveNodeLogical("close", parquet.Repetitions.Required, schema.NewIntLogicalType(64, false), parquet.Types.Int64, 0, -1)), []int64{100, 3, 120, 90}),
	} {
		if got, err := readSeries(write(t, name, contents), ""); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestABadFileIsBlamedByNameFieldAndIndex(t *testing.T) {
	floats := func(v ...float64) []byte { return encode(t, encoding.Octet, &encoding.Request{Close: v}) }
	nan := math.NaN()
	cut := arrowFile(t, record("close", func(b *array.Float64Builder) { b.AppendValues(gbm42.Close()[:1000], nil) }))
	for name, c := range map[string]struct {
		contents []byte
		column   string
		want     []string
	}{
		"nan.f64":       {floats(100, 101, nan), "", []string{"close[2]", "NaN"}},
		"zero.bin":      {floats(0), "", []string{"close[0]"}},
		"tail.f64":      {floats(1, 2)[:12], "", []string{"12 bytes"}},
		"empty.f64":     {nil, "", []string{"empty"}},
		"column.f64":    {floats(1), "close", []string{"no columns"}},
		"what.txt":      {floats(1), "", []string{"extension", ".parquet"}},
		"inf.npy":       {npy(1, "<f8", "(2,)", floats(1, math.Inf(1))), "", []string{"close[1]"}},
		"big.npy":       {npy(1, ">f8", "(1,)", floats(1)), "", []string{">f8"}},
		"object.npy":    {npy(1, "|O", "(1,)", floats(1)), "", []string{"|O"}},
		"2d.npy":        {npy(1, "<f8", "(1, 2)", floats(1, 2)), "", []string{"one dimension"}},
		"scalar.npy":    {npy(1, "<f8", "()", floats(1)), "", []string{"one dimension"}},
		"short.npy":     {npy(1, "<f8", "(3,)", floats(1, 2)), "", []string{"announces 3", "16 bytes"}},
		"huge.npy":      {npy(1, "<f8", "(9223372036854775807,)", floats(1)), "", []string{"bytes"}},
		"inexact.npy":   {npy(1, "<i8", "(2,)", []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 32, 0}), "", []string{"close[1]", "exactly"}},
		"most.npy":      {npy(1, "<u8", "(1,)", bytes.Repeat([]byte{255}, 8)), "", []string{"close[0]", "exactly"}},
		"magic.npy":     {[]byte("hello, world"), "", []string{"numpy"}},
		"cut.npy":       {npy(1, "<f8", "(2,)", nil)[:20], "", []string{"cut"}},
		"empty.csv":     {nil, "", []string{"empty"}},
		"other.csv":     {[]byte("open,high\n1,2\n"), "", []string{"close", `"open" "high"`}},
		"twice.csv":     {[]byte("close,close\n1,2\n"), "", []string{"2 columns"}},
		"word.csv":      {[]byte("t,close\n1,2\n2,x\n"), "", []string{"close[1]", `"x"`, "line 3"}},
		"gap.csv":       {[]byte("t,close\n\n1,2\n2,\n"), "", []string{"close[1]", `""`, "line 4"}},
		"nan.csv":       {[]byte("t,adj\n1,nan\n"), "adj", []string{"adj[0]"}},
		"1e400.csv":     {[]byte("close\n1e400\n"), "", []string{"close[0]"}},
		"ragged.csv":    {[]byte("t,close\n1,2\n3\n"), "", []string{"line 3"}},
		"null.parquet":  {parquetFloats(t, "p", []float64{1, 2, 3}, 1), "p", []string{"p[1]", "null"}},
		"none.parquet":  {parquetFloats(t, "p", []float64{1}, -1), "", []string{"close", `"p"`}},
		"time.parquet":  {parquetInts(t, schema.Must(schema.NewPrimitiveNodeLogical("close", parquet.Repetitions.Required, schema.NewTimestampLogicalType(true, schema.TimeUnitMillis), parquet.Types.Int64, 0, -1)), []int64{1}), "", []string{"close", "imestamp"}},
		"exact.parquet": {parquetInts(t, schema.NewInt64Node("close", parquet.Repetitions.Required, -1), []int64{1, 1<<53 + 1}), "", []string{"close[1]", "exactly"}},
		"junk.parquet":  {[]byte("PAR1PAR1PAR1"), "", nil},
		"empty.parquet": {nil, "", nil},
		"null.arrow":    {arrowFile(t, record("adj", func(b *array.Float64Builder) { b.Append(1); b.AppendNull() })), "adj", []string{"adj[1]", "null"}},
		"none.arrow":    {arrowFile(t, record("adj", func(b *array.Float64Builder) { b.Append(1) })), "", []string{"close", "adj"}},
		"type.arrow":    {arrowFile(t, record("adj", func(b *array.Float64Builder) { b.Append(1) })), "symbol", []string{"symbol", "utf8"}},
		"cut.arrow":     {cut[:len(cut)/2], "", []string{"cut"}},
		"tail.arrow":    {cut[:len(cut)-1], "", []string{"cut"}},
		"nan.arrows":    {arrowStream(t, record("close", func(b *array.Float64Builder) { b.Append(nan) })), "", []string{"close[0]"}},
		"junk.ipc":      {[]byte("ARROW1\x00\x00\xff\xff\xff\x7fARROW1"), "", []string{"footer"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, c.contents)
			args := []string{"--close", path}
			if c.column != "" {
				args = append(args, "--column", c.column)
			}
			out, err := sweepOut(args...)
			if exitStatus(err) != 1 || out != "" {
				t.Fatalf("status %d, %v: %q", exitStatus(err), err, out)
			}
			for _, want := range append(c.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not speak of %s", err, want)
				}
			}
		})
	}
}

func TestDamagedFilesAreErrorsAndNothingWorse(t *testing.T) {
	series := gbm42.Close()[:300]
	for ext, good := range map[string][]byte{
		".parquet": parquetFloats(t, "close", series, -1),
		".arrow":   arrowFile(t, record("close", func(b *array.Float64Builder) { b.AppendValues(series, nil) }), ipc.WithZstd()),
		".npy":     npy(1, "<f8", "(300,)", encode(t, encoding.Octet, &encoding.Request{Close: series})),
	} {
		path := filepath.Join(t.TempDir(), "x"+ext)
		try := func(b []byte) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, _ = readSeries(path, "") // many a flip does no harm
		}
		for n := 0; n < len(good); n += 7 {
			try(good[:n])
		}
		for at := 0; at < len(good); at += 5 {
			b := slices.Clone(good)
			b[at] ^= 1 << (at % 8)
			try(b)
		}
	}
}

func TestResultsComeAsTableJSONOrCSV(t *testing.T) {
	table, err := sweepOut("--dataset", "gbm42", "--lengths", "6,200", "--output", "table")
	if err != nil || table != ""+
		"  length  profit, %  trades  open\n"+
		"       6   -5165.58   57029  long\n"+
		"     200    -131.35    1630  long\n" {
		t.Errorf("%v\n%s", err, table)
	}
	text, err := sweepOut("--dataset", "gbm42", "--lengths", "6", "--output", "json", "--fee", "0")
	var got kernel.Results
	if err := errors.Join(err, json.Unmarshal([]byte(text), &got)); err != nil || got.Trades[0] != 57029 || got.PnL[0] < -1000 {
		t.Errorf("%v: %s", err, text)
	}
	csv, err := sweepOut("--dataset", "gbm42")
	if err != nil || strings.Count(csv, "\n") != 81 {
		t.Errorf("%v\n%s", err, csv)
	}
}

func TestAWrongSweepCommandHasStatus2(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--frame", "--dataset", "gbm42"}, {"--frame", "--lengths", "6"}, {"--frame", "--output", "json"}, {"--close", "x.csv", "--dataset", "gbm42"},
		{"--dataset", "gbm43"}, {"--dataset", "gbm42", "--lengths", "1"}, {"--dataset", "gbm42", "--lengths", "x"}, {"--dataset", "gbm42", "--fee", "9"},
		{"--dataset", "gbm42", "--fee", "x"}, {"--dataset", "gbm42", "--output", "xml"}, {"--dataset", "gbm42", "--column", "close"}, {"--dataset", "gbm42", "more"},
	} {
		if out, err := sweepOut(args...); exitStatus(err) != 2 || out != "" {
			t.Errorf("%q: status %d, %v: %q", args, exitStatus(err), err, out)
		}
	}
}

func TestOneFrameFromStandardInputGetsTheReplyOfTheServer(t *testing.T) {
	s := startFrames(t)
	c := dialFrames(t, s.frames[0])
	binary := buildBinary(t)
	pipe := func(in []byte) (string, string, int) {
		command := exec.CommandContext(t.Context(), binary, "sweep", "--frame")
		command.Stdin = bytes.NewReader(in)
		var errors strings.Builder
		command.Stderr = &errors
		out, _ := command.Output()
		return string(out), errors.String(), command.ProcessState.ExitCode()
	}
	for name, sent := range map[string][]byte{
		"sweep": frame(t, encoding.OpSweep, gbm42.Close(), kernel.Expand(6), kernel.Expand(20)),
		"echo":  frame(t, encoding.OpEcho, []float64{1, math.NaN()}),
		"none":  frame(t, encoding.OpEcho, nil),
	} {
		want := c.ask(t, sent)
		if out, errors, status := pipe(sent); status != 0 || out[4:] != string(want) || errors != "" {
			t.Errorf("%s: status %d, %d bytes: %s", name, status, len(out), errors)
		}
	}
	for name, bad := range badFrames(t) {
		if bad.reason == "over-limit" {
			continue // a process of one's own has no limits
		}
		if out, errors, status := pipe(bad.frame); status != 1 || out != "" || !strings.HasPrefix(errors, "texttax: ") || strings.Count(errors, "\n") != 1 {
			t.Errorf("%s: status %d, %d bytes: %s", name, status, len(out), errors)
		}
	}
	good := frame(t, encoding.OpSweep, []float64{100, 101}, kernel.Expand(6))
	for _, n := range []int{0, 2, 4, 20, len(good) - 1} {
		if out, errors, status := pipe(good[:n]); status != 1 || out != "" || !strings.Contains(errors, "ended") {
			t.Errorf("%d bytes: status %d, %d bytes: %s", n, status, len(out), errors)
		}
	}
}
