"""What is no number is refused by its index, and never read as 0."""

import json
import math

import msgpack
import numpy as np
import pyarrow as pa
import pytest

import wire

NAN = math.nan
LENGTHS = {"lengths": "6"}

SERIES_WITHOUT_A_SECOND_PRICE = {
    "json null": {"json": {"close": [100, None, 101]}},
    "json-std null": wire.typed(json.dumps({"close": [100, None, 101]}), "application/json; codec=std"),
    "msgpack nil": wire.typed(msgpack.packb({"close": [100, None, 101]}), wire.MSGPACK),
    "msgpack NaN": wire.typed(msgpack.packb({"close": [100.0, NAN, 101.0]}), wire.MSGPACK),
    "msgpack bin NaN": wire.typed(msgpack.packb({"close": np.array([100, NAN, 101]).tobytes()}), wire.MSGPACK),
    "octet NaN": {"data": np.array([100, NAN, 101]).tobytes()},
    "octet frame NaN": wire.typed(wire.frame(0, [100, NAN, 101]), wire.OCTET),
    "arrow null": wire.typed(wire.stream(wire.series([100.0, None, 101.0])), wire.ARROW),
    "arrow null among integers": wire.typed(wire.stream(wire.series([100, None, 101])), wire.ARROW),
    "arrow NaN": wire.typed(wire.stream(wire.series(pa.array([100, NAN, 101]))), wire.ARROW),
}


@pytest.mark.parametrize("name", SERIES_WITHOUT_A_SECOND_PRICE)
def test_a_missing_price_is_refused_by_its_index(service, name):
    r = service.sweep(params=LENGTHS, **SERIES_WITHOUT_A_SECOND_PRICE[name])
    wire.blames(r, "close", 1)


@pytest.mark.parametrize("name", [n for n in SERIES_WITHOUT_A_SECOND_PRICE if "NaN" not in n])
def test_an_echo_has_nothing_to_send_back_for_a_null(service, name):
    wire.blames(service.echo(**SERIES_WITHOUT_A_SECOND_PRICE[name]), "close", 1)


@pytest.mark.parametrize("price", [math.inf, -math.inf, 0.0, -0.0, -1.0])
def test_a_price_that_is_none_is_refused_by_its_index_in_every_format(service, price):
    close = np.array([100, 101, price, 0])
    for send in [
        {"data": close.tobytes()},
        wire.typed(msgpack.packb({"close": close.tolist()}), wire.MSGPACK),
        wire.typed(msgpack.packb({"close": close.tobytes()}), wire.MSGPACK),
        wire.typed(wire.stream(wire.series(close)), wire.ARROW),
    ]:
        wire.blames(service.sweep(params=LENGTHS, **send), "close", 2)
    if math.isfinite(price):
        wire.blames(service.sweep(params=LENGTHS, json={"close": close.tolist()}), "close", 2)


def test_the_first_null_is_named(service):
    close = [100.0] * 1000
    close[700] = close[333] = None
    wire.blames(service.sweep(params=LENGTHS, json={"close": close}), "close", 333)
    wire.blames(service.sweep(params=LENGTHS, **wire.typed(msgpack.packb({"close": close}), wire.MSGPACK)), "close", 333)
    wire.blames(service.sweep(params=LENGTHS, **wire.typed(wire.stream(wire.series(close)), wire.ARROW)), "close", 333)


def test_a_null_window_is_refused_by_its_combo(service):
    windows = [[3, 6, 2, 1, 2, 3], [3, None, 2, 1, 2, 3]]
    for send in [
        {"json": {"dataset": "gbm42", "params": windows}},
        wire.typed(msgpack.packb({"dataset": "gbm42", "params": windows}), wire.MSGPACK),
        wire.typed(wire.stream(wire.combos(windows)), wire.ARROW) | {"params": {"dataset": "gbm42"}},
    ]:
        wire.blames(service.sweep(**send), "params.hma_full", 1)
