"""Windows are whole numbers, however they are written, and nothing else."""

import json

import msgpack
import numpy as np
import pyarrow as pa
import pytest

import wire

TEN = [[5, 10, 3, 2, 3, 5]]


@pytest.fixture(scope="module")
def want(grid):
    i = grid.lengths.index(10)
    return wire.Results(grid.want.pnl[i : i + 1], grid.want.trades[i : i + 1], None)


def json_with(text):
    body = '{"dataset":"gbm42","params":[[5,%s,3,2,3,5]]}' % text
    return [wire.typed(body, t) for t in (wire.JSON, "application/json; codec=std")]


def msgpack_with(value):
    return wire.typed(msgpack.packb({"dataset": "gbm42", "params": [[5, value, 3, 2, 3, 5]]}), wire.MSGPACK)


def arrow_with(column):
    table = wire.combos(TEN).set_column(1, "hma_full", column)
    return wire.typed(wire.stream(table), wire.ARROW) | {"params": {"dataset": "gbm42"}}


@pytest.mark.parametrize("text", ["10", "10.0", "1e1", "1E+1", "100e-1", "10.000"])
def test_json_says_ten_in_many_ways(service, want, text):
    for send in json_with(text):
        wire.check(service.sweep(**send), want)


@pytest.mark.parametrize("text", ["1e2", "100", "100.0"])
def test_json_says_a_hundred_in_many_ways(service, text):
    for send in json_with(text):
        wire.check(service.sweep(**send), wire.results_of(service.sweep(**msgpack_with(100))))


@pytest.mark.parametrize("value", [10, 10.0, np.float64(10)])
def test_msgpack_says_ten_as_integer_or_float(service, want, value):
    wire.check(service.sweep(**msgpack_with(value)), want)


FLOATS = [pa.float16(), pa.float32(), pa.float64()]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("type", FLOATS + INTEGERS, ids=str)
def test_arrow_windows_may_be_of_any_number_type(service, want, type):
    wire.check(service.sweep(**arrow_with(pa.array([10], type))), want)
    table = wire.combos(TEN).cast(pa.schema([(name, type) for name in wire.WINDOWS]))
    wire.check(service.sweep(params={"dataset": "gbm42"}, **wire.typed(wire.stream(table), wire.ARROW)), want)


def test_pandas_windows_that_became_floats_are_read(service, want):
    table = pa.Table.from_pandas(wire.combos(TEN).to_pandas().astype(float))
    assert table.schema.field("hma_full").type == pa.float64()
    wire.check(service.sweep(params={"dataset": "gbm42"}, **wire.typed(wire.stream(table), wire.ARROW)), want)


@pytest.mark.parametrize("text", ["10.5", '"10"', "true", "null", "1e-1", "1e30", "[10]", "0", "-1", "9223372036854775808"])
def test_what_is_no_window_is_refused_in_json(service, text):
    for send in json_with(text):
        wire.blames(service.sweep(**send), "params.hma_full", 0)


@pytest.mark.parametrize("value", [10.5, "10", True, None, 1e30, float("nan"), float("inf"), [10], b"10", 0, -1, 2**63])
def test_what_is_no_window_is_refused_in_msgpack(service, value):
    wire.blames(service.sweep(**msgpack_with(value)), "params.hma_full", 0)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([10.5]),
        pa.array([10.5], pa.float32()),
        pa.array([1e30]),
        pa.array([float("nan")]),
        pa.array([2**63], pa.uint64()),
        pa.array([0]),
        pa.array([-1]),
        pa.array([-1], pa.int8()),
    ],
    ids=str,
)
def test_what_is_no_window_is_refused_in_arrow(service, column):
    wire.blames(service.sweep(**arrow_with(column)), "params.hma_full", 0)


@pytest.mark.parametrize(
    "column", [pa.array(["10"]), pa.array([True]), pa.array([10]).dictionary_encode(), pa.array([[10]])], ids=lambda c: str(c.type)
)
def test_arrow_windows_of_other_types_are_refused_by_name(service, column):
    p = wire.problem(service.sweep(**arrow_with(column)), 422)
    assert p["field"] == "params.hma_full" and "hma_full" in p["detail"]


@pytest.mark.parametrize("window", [0, -1])
def test_octet_windows_below_one_are_refused(service, window):
    windows = [TEN[0], [5, window, 3, 2, 3, 5]]
    wire.blames(service.sweep(data=wire.frame(0, [100.0, 101.0], windows)), "params.hma_full", 1)


def test_the_same_lengths_are_whole_in_every_format(service, want):
    for text in "10", "10.0", "1e1":
        wire.check(service.sweep(**wire.typed('{"dataset":"gbm42","lengths":[%s]}' % text, wire.JSON)), want)
    for value in 10, 10.0:
        wire.check(service.sweep(**wire.typed(msgpack.packb({"dataset": "gbm42", "lengths": [value]}), wire.MSGPACK)), want)
    for value in 10.5, "10", None:
        body = {"dataset": "gbm42", "lengths": [6, value]}
        wire.blames(service.sweep(**wire.typed(json.dumps(body), wire.JSON)), "lengths", 1)
        wire.blames(service.sweep(**wire.typed(msgpack.packb(body), wire.MSGPACK)), "lengths", 1)
