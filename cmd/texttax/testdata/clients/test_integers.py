"""Whole prices are exact, however they are typed, or refused."""

import msgpack
import numpy as np
import pyarrow as pa
import pytest

import wire

WHOLE = [100, 100.5, 255, 70000, 1099511627776]


def packed(close, **options):
    return wire.typed(msgpack.packb({"close": close}, **options), wire.MSGPACK)


def test_msgpack_packs_whole_numbers_as_the_smallest_integers():
    assert [msgpack.packb(v)[:1].hex() for v in WHOLE] == ["64", "cb", "cc", "ce", "cf"]


def test_the_smallest_integers_are_read_as_the_floats_they_stand_for(service):
    assert wire.same_bits(wire.close_of(service.echo(**packed(WHOLE))), WHOLE)


def test_integers_of_every_width_are_read(service):
    edges = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**53, 2**62, 2**63]
    edges += [-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**53), -(2**63)]
    assert wire.same_bits(wire.close_of(service.echo(**packed(edges))), [float(v) for v in edges])


def test_integers_give_the_same_sweep_as_json(service):
    close = (100 + np.random.default_rng(1).integers(-3, 4, 400).cumsum() % 50).tolist()
    mixed = [v if i % 3 else v + 0.5 for i, v in enumerate(close)]
    for series in close, mixed:
        want = wire.results_of(service.sweep(params={"lengths": "6:40:5"}, json={"close": series}))
        assert sum(want.trades) > 0
        wire.check(service.sweep(params={"lengths": "6:40:5"}, **packed(series)), want)
        wire.check(service.sweep(params={"lengths": "6:40:5"}, **packed([float(v) for v in series])), want)


def test_single_floats_are_widened(service):
    close = [100.1, 100.5, 1e-40]
    r = service.echo(**packed(close, use_single_float=True))
    assert wire.same_bits(wire.close_of(r), np.array(close, np.float32).astype(np.float64))


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, 2**63 + 1, 2**64 - 1, -(2**53) - 1])
def test_an_integer_that_no_float_equals_is_refused_by_its_index(service, value):
    wire.blames(service.echo(**packed([100, value])), "close", 1)
    wire.blames(service.sweep(params={"lengths": 6}, **packed([100, value])), "close", 1)
    type = pa.int64() if value < 2**63 else pa.uint64()
    arrow = wire.typed(wire.stream(wire.series(pa.array([100, value], type))), wire.ARROW)
    wire.blames(service.echo(**arrow), "close", 1)
    wire.blames(service.sweep(params={"lengths": 6}, **arrow), "close", 1)


@pytest.mark.parametrize("value", [2**63, 2**63 + 2**11, 2**64 - 2**11])
def test_a_large_unsigned_integer_that_a_float_equals_is_not_negative(service, value):
    arrow = wire.typed(wire.stream(wire.series(pa.array([100, value], pa.uint64()))), wire.ARROW)
    for send in packed([100, value]), arrow:
        assert wire.same_bits(wire.close_of(service.echo(**send)), [100.0, float(value)])


def test_a_boolean_is_no_price(service):
    wire.blames(service.sweep(params={"lengths": 6}, **packed([100, True])), "close", 1)
    wire.blames(service.sweep(params={"lengths": 6}, json={"close": [100, True]}), "close", 1)


def test_text_is_no_price(service):
    wire.blames(service.sweep(params={"lengths": 6}, **packed([100, "101"])), "close", 1)
    wire.blames(service.sweep(params={"lengths": 6}, json={"close": [100, "101"]}), "close", 1)


def test_bytes_sent_as_old_msgpack_strings_are_refused(service):
    assert wire.problem(service.echo(**packed(np.array([1.0]).tobytes(), use_bin_type=False)), 422)["field"] == "close"
