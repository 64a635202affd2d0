"""Columns of any type may stand beside those that count."""

import datetime
import decimal
import uuid

import pyarrow as pa
import pytest

import wire

N = 24


def repeat(value, type=None):
    return pa.array([value, None] * (N // 2), type)


UNIONS = [pa.array(range(N)), pa.array([str(i) for i in range(N)])]

ODD = {
    "null": pa.nulls(N),
    "bool": repeat(True),
    "float16": repeat(1.5, pa.float16()),
    "int8": repeat(1, pa.int8()),
    "string": repeat("é"),
    "large_string": repeat("x", pa.large_string()),
    "string_view": repeat("longer than the twelve bytes that are inlined", pa.string_view()),
    "binary": repeat(b"\0"),
    "large_binary": repeat(b"\0", pa.large_binary()),
    "binary_view": repeat(b"longer than the twelve bytes that are inlined", pa.binary_view()),
    "fixed_size_binary": repeat(b"abc", pa.binary(3)),
    "decimal32": repeat(decimal.Decimal("1.5"), pa.decimal32(5, 1)),
    "decimal64": repeat(decimal.Decimal("1.5"), pa.decimal64(5, 1)),
    "decimal128": repeat(decimal.Decimal("1.5"), pa.decimal128(5, 1)),
    "decimal256": repeat(decimal.Decimal("1.5"), pa.decimal256(50, 1)),
    "date32": repeat(datetime.date(2020, 1, 1)),
    "date64": repeat(datetime.date(2020, 1, 1), pa.date64()),
    "time32": repeat(5, pa.time32("ms")),
    "time64": repeat(5, pa.time64("ns")),
    "timestamp": repeat(5, pa.timestamp("ns")),
    "timestamp with zone": repeat(5, pa.timestamp("us", "Europe/Berlin")),
    "duration": repeat(5, pa.duration("ns")),
    "interval": repeat((1, 2, 3), pa.month_day_nano_interval()),
    "list": repeat([1.0, 2.0]),
    "large_list": repeat([1.0], pa.large_list(pa.float64())),
    "list_view": repeat([1.0], pa.list_view(pa.float64())),
    "large_list_view": repeat([1.0], pa.large_list_view(pa.float64())),
    "fixed_size_list": repeat([1, 2], pa.list_(pa.int8(), 2)),
    "list of structs of lists": repeat([{"a": [1], "close": [2.0]}]),
    "struct": repeat({"close": 1.0, "nested": {"close": "x"}}),
    "map": repeat([("a", 1)], pa.map_(pa.string(), pa.int64())),
    "dictionary": repeat("x").dictionary_encode(),
    "dictionary in a list": pa.ListArray.from_arrays(pa.array(range(N + 1), pa.int32()), repeat("x").dictionary_encode()),
    "dense union": pa.UnionArray.from_dense(pa.array([0, 1] * (N // 2), pa.int8()), pa.array(range(N), pa.int32()), UNIONS),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1] * (N // 2), pa.int8()), UNIONS),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([5, N], pa.int32()), ["a", "b"]),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), repeat(uuid.UUID(int=7).bytes, pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), repeat("{}")),
    "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [2]), repeat([1, 2], pa.list_(pa.int8(), 2))),
}

COMPRESSIONS = [None, "lz4", "zstd"]


def options(compression):
    return pa.ipc.IpcWriteOptions(compression=compression)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", ODD)
def test_a_column_of_any_type_is_passed_over(service, gbm42, name, compression):
    close = gbm42[:N]
    for table in [
        pa.table({"close": close, "odd": ODD[name]}),
        pa.table({"odd": ODD[name], "close": close}),
        pa.table({"odd": ODD[name], "close": close, "odd again": ODD[name]}).slice(3, 17),
    ]:
        for size in None, 5:
            body = wire.stream(table, options(compression), max_chunksize=size)
            r = service.echo(**wire.typed(body, wire.ARROW))
            assert wire.same_bits(wire.close_of(r), table["close"].to_numpy())


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_columns_of_all_types_at_once_are_passed_over(service, gbm42, grid, compression):
    table = pa.table(ODD).add_column(20, "close", pa.array(gbm42[:N]))
    combos = wire.combos(grid.windows[:N])
    for name, column in ODD.items():
        combos = combos.add_column(3, name, column)
    body = wire.stream(table, options(compression)) + wire.stream(combos, options(compression))
    got = wire.results_of(service.sweep(**wire.typed(body, wire.ARROW)))
    want = service.sweep(json={"close": gbm42[:N].tolist(), "params": grid.windows[:N]})
    assert len(got.pnl) == N and sum(got.trades) > 0
    wire.check(want, got)


def test_dictionaries_that_grow_between_batches_are_passed_over(service, gbm42):
    close = gbm42[:N]
    words = pa.chunked_array([pa.array(["a"] * 8).dictionary_encode(), pa.array(["b", "c"] * 8).dictionary_encode()])
    table = pa.table({"odd": words, "close": close})
    for deltas in False, True:
        body = wire.stream(table, pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas))
        assert wire.same_bits(wire.close_of(service.echo(**wire.typed(body, wire.ARROW))), close)


def test_metadata_of_schema_and_field_is_passed_over(service, gbm42):
    field = pa.field("close", pa.float64(), nullable=False, metadata={"unit": "USD"})
    table = pa.table([pa.array(gbm42[:N])], schema=pa.schema([field], metadata={"close": "x" * 100_000}))
    assert wire.same_bits(wire.close_of(service.echo(**wire.typed(wire.stream(table), wire.ARROW))), gbm42[:N])


def test_window_columns_are_found_by_name_in_any_order(service, gbm42, few):
    combos = wire.combos(few.windows)
    shuffled = combos.select(["hma3_full", "hma_smooth", "hma_half", "hma3_half", "hma3_third", "hma_full"])
    body = wire.stream(wire.series(gbm42)) + wire.stream(shuffled)
    wire.check(service.sweep(**wire.typed(body, wire.ARROW)), few.want)
