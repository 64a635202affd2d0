"""JSON from orjson and for it, whose reader and writer of floats are not Python's."""

import json

import numpy as np
import orjson
import pytest

import edges
import wire

CODECS = [wire.JSON, "application/json; codec=std"]


def dumps(body):
    """JSON of a body that may have numpy arrays."""
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def loads(response):
    assert wire.media_type(response).split(";")[0] == wire.JSON
    return orjson.loads(response.content)


@pytest.mark.parametrize("codec", CODECS)
def test_every_bit_of_an_array_is_read(service, codec):
    for close in edges.FINITE, edges.FINITE.tolist():
        r = service.echo(data=dumps({"close": close}), headers={"Content-Type": codec, "Accept": wire.OCTET})
        assert wire.same_bits(wire.close_of(r), edges.FINITE)


@pytest.mark.parametrize("codec", CODECS)
def test_every_bit_of_an_answer_is_read(service, codec):
    r = service.echo(data=edges.FINITE.tobytes(), headers={"Accept": codec})
    assert wire.same_bits(loads(r)["close"], edges.FINITE)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("i", range(0, len(edges.FINITE), 997))
def test_a_number_alone_survives_both_ways(service, codec, i):
    close = edges.FINITE[i : i + 1]
    r = service.echo(**wire.typed(dumps({"close": close}), codec))
    assert wire.same_bits(loads(r)["close"], close)


@pytest.mark.parametrize("codec", CODECS)
def test_all_its_types_of_numbers_are_read(service, codec):
    for type in np.float32, np.int8, np.uint8, np.int32, np.int64, np.uint64:
        close = np.array([1, 100, 127], type)
        r = service.echo(**wire.typed(dumps({"close": close}), codec))
        assert wire.same_bits(loads(r)["close"], close)
    # A float32 is written as the shortest text that is its own, not the
    # double's; what arrives is what that text says.
    r = service.echo(**wire.typed(dumps({"close": np.array([0.1], np.float32)}), codec))
    assert wire.same_bits(loads(r)["close"], [0.1])


@pytest.mark.parametrize("codec", CODECS)
def test_a_nan_arrives_as_null_and_is_refused_by_its_index(service, codec):
    body = dumps({"close": np.array([100, np.nan, 101, np.inf])})
    assert b"null" in body
    wire.blames(service.echo(**wire.typed(body, codec)), "close", 1)
    wire.blames(service.sweep(params={"lengths": 6}, **wire.typed(body, codec)), "close", 1)


@pytest.mark.parametrize("codec", CODECS)
def test_indented_json_is_the_same(service, codec):
    body = orjson.dumps({"close": edges.FINITE[:50].tolist(), "fee": 0.0009}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    assert wire.same_bits(loads(service.echo(**wire.typed(body, codec)))["close"], edges.FINITE[:50])


@pytest.mark.parametrize("codec", CODECS)
def test_a_sweep_gives_the_golden_grid(service, gbm42, grid, codec):
    body = dumps({"close": gbm42, "params": np.array(grid.windows), "fee": grid.fee})
    r = service.sweep(**wire.typed(body, codec))
    wire.check(r, grid.want)
    answer = loads(r)
    assert wire.same_bits(answer["pnl"], grid.want.pnl)
    assert answer["trades"] == grid.want.trades
    assert answer == json.loads(r.content)


def test_the_demo_series_survives(service, gbm42):
    r = service.request("GET", "/datasets/gbm42", headers={"Accept": wire.JSON})
    assert wire.same_bits(loads(r)["close"], gbm42)
    r = service.echo(data=dumps({"close": gbm42}), headers={"Content-Type": wire.JSON, "Accept": wire.OCTET})
    assert r.content == gbm42.tobytes()


def test_a_problem_is_read(service):
    p = orjson.loads(service.echo(**wire.typed(b'{"close":[1,null]}', wire.JSON)).content)
    assert (p["status"], p["field"], p["index"]) == (422, "close", 1)
