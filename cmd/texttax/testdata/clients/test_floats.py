"""Floats arrive as they were, or are refused."""

import json
import math

import msgpack
import numpy as np
import pytest
import requests

import wire

# Text that fast parsers get wrong by one unit in the last place, the edges of
# the subnormals and of the range, and neighbours that short text can't tell apart.
HARD = [
    1052748004135.6885,
    0.9884619112598676,
    5e-324,
    2.225073858507201e-308,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    9007199254740993.0,
    9.007199254740991e15,
    1e22,
    1e23,
    123456789012345680000.0,
    0.1 + 0.2,
    0.3,
    math.nextafter(100, 200),
    100.0,
    1e-7,
    1e21,
]


def senders(close):
    return {
        "json": {"json": {"close": close.tolist()}},
        "json-std": wire.typed(json.dumps({"close": close.tolist()}), "application/json; codec=std"),
        "msgpack": wire.typed(msgpack.packb({"close": close.tolist()}), wire.MSGPACK),
        "msgpack bin": wire.typed(msgpack.packb({"close": close.tobytes()}), wire.MSGPACK),
        "arrow": wire.typed(wire.stream(wire.series(close)), wire.ARROW),
        "octet": {"data": close.tobytes()},
        "octet frame": wire.typed(wire.frame(1, close), wire.OCTET),
    }


FORMATS = list(senders(np.array([1.0])))
BINARY = [f for f in FORMATS if "json" not in f]
ANSWERS = [wire.JSON, "application/json; codec=std", wire.MSGPACK, wire.MSGPACK_BIN, wire.ARROW, wire.OCTET]


def echo(service, close, send, accept):
    kwargs = senders(np.array(close))[send]
    kwargs["headers"] = kwargs.get("headers", {}) | {"Accept": accept}
    return service.echo(**kwargs)


@pytest.mark.parametrize("send", FORMATS)
@pytest.mark.parametrize("accept", ANSWERS)
def test_hard_numbers_come_back_bit_for_bit(service, send, accept):
    assert wire.same_bits(wire.close_of(echo(service, HARD, send, accept)), HARD)


@pytest.mark.parametrize("send", FORMATS)
@pytest.mark.parametrize("accept", ANSWERS)
def test_minus_zero_keeps_its_sign(service, send, accept):
    close = [1.0, -0.0, 0.0]
    assert wire.same_bits(wire.close_of(echo(service, close, send, accept)), close)


@pytest.mark.parametrize("send", FORMATS)
@pytest.mark.parametrize("accept", ANSWERS)
def test_subnormals_are_not_flushed(service, send, accept):
    close = np.arange(1, 200, dtype=np.uint64).view(np.float64)
    assert wire.same_bits(wire.close_of(echo(service, close, send, accept)), close)


@pytest.mark.parametrize("send", BINARY)
@pytest.mark.parametrize("accept", ANSWERS[2:])
def test_binary_formats_keep_infinities_and_nan_payloads(service, send, accept):
    if send == "msgpack" or accept == wire.MSGPACK:
        # Python's float keeps payloads of quiet NaNs only.
        bits = [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000123]
    else:
        bits = [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF0000000000001, 0xFFF8000000000123]
    close = np.array(bits, np.uint64).view(np.float64)
    assert wire.same_bits(wire.close_of(echo(service, close, send, accept)), close)


@pytest.mark.parametrize("send", BINARY)
@pytest.mark.parametrize("accept", ANSWERS[:2])
def test_what_json_can_not_say_is_refused_and_not_said_as_null(service, send, accept):
    wire.blames(echo(service, [1, math.nan, math.inf], send, accept), "close", 1)
    wire.blames(echo(service, [1, 2, math.inf], send, accept), "close", 2)


@pytest.mark.parametrize("media_type", [wire.JSON, "application/json; codec=std"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_nan_of_json_dumps_is_no_json(service, media_type, value):
    body = json.dumps({"close": [100, value]})
    wire.problem(service.echo(**wire.typed(body, media_type)), 400)
    wire.problem(service.sweep(params={"lengths": 6}, **wire.typed(body, media_type)), 400)
    with pytest.raises(requests.exceptions.InvalidJSONError):
        service.echo(json={"close": [100, value]})


@pytest.mark.parametrize("media_type", [wire.JSON, "application/json; codec=std"])
@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400])
def test_json_numbers_out_of_range_are_malformed(service, media_type, text):
    wire.problem(service.echo(**wire.typed('{"close":[%s]}' % text, media_type)), 400)


@pytest.mark.parametrize("media_type", [wire.JSON, "application/json; codec=std"])
@pytest.mark.parametrize(
    "text",
    [
        "1052748004135.6885",
        "0.9884619112598676",
        "5e-324",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "9007199254740993",
        "9007199254740992.999999999999999999999999",
        "1e-400",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1" + "0" * 308,
        "-0",
        "-0.0",
        "-0e5",
    ],
)
def test_json_text_is_read_as_python_reads_it(service, media_type, text):
    r = service.echo(data='{"close":[%s]}' % text, headers={"Content-Type": media_type, "Accept": wire.OCTET})
    assert wire.same_bits(wire.close_of(r), [float(text)])


def test_random_bits_survive_json_both_ways(service):
    close = np.random.default_rng(7).integers(0, 0x7FF0000000000000, 20_000, np.uint64).view(np.float64)
    for media_type in ANSWERS[:2]:
        r = service.echo(**wire.typed(json.dumps({"close": close.tolist()}), media_type))
        assert wire.same_bits(wire.close_of(r), close)


def test_the_demo_series_survives_every_format(service, gbm42):
    for send, accept in zip(FORMATS, [wire.JSON, wire.MSGPACK, wire.ARROW, wire.MSGPACK_BIN, wire.OCTET, wire.JSON, wire.ARROW]):
        assert wire.same_bits(wire.close_of(echo(service, gbm42, send, accept)), gbm42)
