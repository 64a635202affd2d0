"""The type of close: any number, exactly, and nothing else."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

import wire


def echo(service, column):
    return service.echo(**wire.typed(wire.stream(wire.series(column)), wire.ARROW))


LIMITS = {
    "int8": [-128, 127],
    "int16": [-32768, 32767],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**53, 2**62],
    "uint8": [0, 255],
    "uint16": [0, 65535],
    "uint32": [0, 2**32 - 1],
    "uint64": [0, 2**53, 2**63, 2**64 - 2048],
}


@pytest.mark.parametrize("type", LIMITS)
def test_integers_of_every_type_are_read(service, type):
    r = echo(service, pa.array(LIMITS[type], getattr(pa, type)()))
    assert wire.same_bits(wire.close_of(r), [float(v) for v in LIMITS[type]])


@pytest.mark.parametrize("type", [np.float16, np.float32])
def test_narrow_floats_are_widened(service, type):
    close = np.array([100.1, -0.0, np.finfo(type).tiny, np.finfo(type).smallest_subnormal, np.finfo(type).max], type)
    assert wire.same_bits(wire.close_of(echo(service, pa.array(close))), close.astype(np.float64))


@pytest.mark.parametrize("type", [np.float16, np.float32, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_a_sweep_of_narrow_numbers_is_that_of_the_same_floats(service, type):
    close = (60 + np.random.default_rng(3).integers(-9, 10, 500).cumsum() % 50).astype(type)
    want = wire.results_of(service.sweep(params={"lengths": "6:40:5"}, data=close.astype("<f8").tobytes()))
    assert sum(want.trades) > 0
    body = wire.typed(wire.stream(wire.series(pa.array(close))), wire.ARROW)
    wire.check(service.sweep(params={"lengths": "6:40:5"}, **body), want)


def storage(type, values):
    class Price(pa.ExtensionType):
        def __init__(self):
            super().__init__(type, "texttax.test.price")

        def __arrow_ext_serialize__(self):
            return b""

    return pa.ExtensionArray.from_storage(Price(), pa.array(values, type))


OTHERS = {
    "dictionary": pa.array([100.0, 101.0, 100.0]).dictionary_encode(),
    "dictionary of text": pa.array(["100", "101"]).dictionary_encode(),
    "list": pa.array([[100.0], [101.0]]),
    "large list": pa.array([[100.0]], pa.large_list(pa.float64())),
    "fixed-size list": pa.array([[100.0, 101.0]], pa.list_(pa.float64(), 2)),
    "list view": pa.array([[100.0]], pa.list_view(pa.float64())),
    "struct": pa.array([{"bid": 99.0, "ask": 101.0}]),
    "map": pa.array([[("a", 1.0)]], pa.map_(pa.string(), pa.float64())),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays([3], [100.0]),
    "dense union": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1.0])]),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1.0])]),
    "string": pa.array(["100"]),
    "large string": pa.array(["100"], pa.large_string()),
    "string view": pa.array(["100"], pa.string_view()),
    "binary": pa.array([b"100"]),
    "bool": pa.array([True, False]),
    "null": pa.nulls(3),
    "decimal": pa.array([decimal.Decimal("100.25")]),
    "timestamp": pa.array([1, 2], pa.timestamp("ns", "UTC")),
    "duration": pa.array([1, 2], pa.duration("s")),
    "date": pa.array([1, 2], pa.date32()),
    "time": pa.array([1, 2], pa.time64("us")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_types_are_refused_by_the_name_of_the_column(service, name):
    for options in None, pa.ipc.IpcWriteOptions(compression="zstd"):
        r = service.echo(**wire.typed(wire.stream(wire.series(OTHERS[name]), options), wire.ARROW))
        p = wire.problem(r, 422)
        assert p["field"] == "close" and "close" in p["detail"]
    table = wire.series(OTHERS[name]).append_column("volume", pa.array(range(len(OTHERS[name]))))
    p = wire.problem(service.sweep(params={"lengths": 6}, **wire.typed(wire.stream(table), wire.ARROW)), 422)
    assert p["field"] == "close"


def test_a_series_without_close_is_refused_by_saying_what_is_missing(service):
    table = pa.table({"Close": [100.0], "price": [100.0]})
    for send in service.echo, service.sweep:
        p = wire.problem(send(**wire.typed(wire.stream(table), wire.ARROW)), 422)
        assert "close" in p["detail"]
