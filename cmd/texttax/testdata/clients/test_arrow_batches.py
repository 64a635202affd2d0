"""However a table is cut into batches, chunks and slices, it is the same table."""

import io

import numpy as np
import pyarrow as pa
import pytest

import wire

LENGTHS = {"lengths": "6,8,10"}


def arrow(body):
    return wire.typed(body, wire.ARROW)


def in_batches(close, sizes):
    sink = io.BytesIO()
    schema = pa.schema([("close", pa.float64())])
    with pa.ipc.new_stream(sink, schema) as writer:
        for part in np.split(close, np.cumsum(sizes)[:-1]):
            writer.write_batch(pa.record_batch([pa.array(part)], schema))
    return sink.getvalue()


@pytest.mark.parametrize("sizes", [[100_000, 0, 50_000], [0, 150_000, 0], [1, 149_999], [7] * 21_428 + [4]], ids=lambda s: str(s[:4]))
def test_batches_of_any_size_are_the_whole_series(service, gbm42, few, sizes):
    assert sum(sizes) == len(gbm42)
    body = in_batches(gbm42, sizes)
    assert wire.same_bits(wire.close_of(service.echo(**arrow(body))), gbm42)
    wire.check(service.sweep(params=few.query, **arrow(body)), few.want)


def test_tables_of_chunks_are_the_whole_series(service, gbm42, few):
    table = pa.table({"close": pa.chunked_array([gbm42[:10], gbm42[10:10], gbm42[10:77_777], gbm42[77_777:]])})
    assert table["close"].num_chunks == 4
    for options in {}, {"max_chunksize": 4096}:
        wire.check(service.sweep(params=few.query, **arrow(wire.stream(table, **options))), few.want)


def test_concatenated_tables_are_the_whole_series(service, gbm42):
    table = pa.concat_tables([wire.series(gbm42[:5]), wire.series(gbm42[5:6]), wire.series(gbm42[6:])])
    assert wire.same_bits(wire.close_of(service.echo(**arrow(wire.stream(table)))), gbm42)


def test_windows_may_come_in_batches(service, gbm42, few):
    body = wire.stream(wire.series(gbm42)) + wire.stream(wire.combos(few.windows), max_chunksize=7)
    wire.check(service.sweep(**arrow(body)), few.want)


@pytest.mark.parametrize("offset", range(1, 20))
@pytest.mark.parametrize("length", [None, 40, 64, 101])
def test_slices_begin_where_they_were_cut(service, gbm42, offset, length):
    whole = wire.series(gbm42[:300])
    cut = whole.slice(offset, length)
    want = gbm42[:300][offset : None if length is None else offset + length]
    assert wire.same_bits(wire.close_of(service.echo(**arrow(wire.stream(cut)))), want)


@pytest.mark.parametrize("type", [pa.float32(), pa.int8(), pa.int16(), pa.uint32(), pa.uint64()], ids=str)
def test_slices_of_narrow_numbers_begin_where_they_were_cut(service, type):
    table = wire.series(pa.array(range(100), type)).slice(3, 91)
    assert wire.same_bits(wire.close_of(service.echo(**arrow(wire.stream(table)))), np.arange(3.0, 94.0))


def test_a_sliced_sweep_is_that_of_a_copy(service, gbm42):
    cut = wire.series(gbm42[:5000]).slice(3, 4000)
    copy = wire.series(gbm42[3:4003].copy())
    want = wire.results_of(service.sweep(params=LENGTHS, **arrow(wire.stream(copy))))
    assert want.trades[0] > 1000
    wire.check(service.sweep(params=LENGTHS, **arrow(wire.stream(cut))), want)


def with_nulls(close, *rows):
    mask = np.zeros(len(close), bool)
    mask[list(rows)] = True
    return wire.series(pa.array(close, mask=mask))


def test_a_null_before_a_slice_is_not_in_it(service, gbm42):
    cut = with_nulls(gbm42[:100], 0, 2).slice(3)
    assert cut["close"].null_count == 0
    assert wire.same_bits(wire.close_of(service.echo(**arrow(wire.stream(cut)))), gbm42[3:100])


def test_a_null_after_a_slice_is_not_in_it(service, gbm42):
    cut = with_nulls(gbm42[:100], 1, 60).slice(3, 57)
    assert wire.same_bits(wire.close_of(service.echo(**arrow(wire.stream(cut)))), gbm42[3:60])


@pytest.mark.parametrize("row", [3, 4, 10, 11, 63, 67, 99])
def test_a_null_within_a_slice_is_named_by_its_row_there(service, gbm42, row):
    cut = with_nulls(gbm42[:100], 1, row).slice(3)
    wire.blames(service.echo(**arrow(wire.stream(cut))), "close", row - 3)
    wire.blames(service.sweep(params=LENGTHS, **arrow(wire.stream(cut))), "close", row - 3)


@pytest.mark.parametrize("size", [1, 7, 8, 33, 1000])
def test_a_null_is_named_by_its_row_in_the_table_and_not_in_its_batch(service, gbm42, size):
    body = wire.stream(with_nulls(gbm42[:100], 40, 77), max_chunksize=size)
    wire.blames(service.sweep(params=LENGTHS, **arrow(body)), "close", 40)


def test_a_validity_bitmap_without_nulls_changes_nothing(service, gbm42):
    close = np.ascontiguousarray(gbm42[:100])
    bitmap = pa.py_buffer(b"\xff" * 13)
    array = pa.Array.from_buffers(pa.float64(), 100, [bitmap, pa.py_buffer(close)])
    assert array.buffers()[0] is not None and array.null_count == 0
    for table in wire.series(array), wire.series(array).slice(3):
        assert wire.same_bits(wire.close_of(service.echo(**arrow(wire.stream(table)))), table["close"].to_numpy())
    # pyarrow leaves out a bitmap that it knows to be full; one whose nulls lie
    # in another batch is sent.
    body = wire.stream(with_nulls(gbm42[:100], 99), max_chunksize=90)
    wire.blames(service.echo(**arrow(body)), "close", 99)


def test_a_table_without_rows_is_an_empty_series(service):
    for body in wire.stream(wire.series(pa.array([], pa.float64()))), in_batches(np.array([]), [0, 0]):
        assert len(wire.close_of(service.echo(**arrow(body)))) == 0
        assert wire.problem(service.sweep(params=LENGTHS, **arrow(body)), 422)["field"] == "close"
