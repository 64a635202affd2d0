"""Compressed request bodies, and answers that stay plain by default."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest

import wire


def gzipped(body):
    return gzip.compress(body, 1)


def zstded(body):
    return pa.compress(body, "zstd", asbytes=True)


CODINGS = [("gzip", gzipped), ("x-gzip", gzipped), ("zstd", zstded)]


def send(body, media_type, coding):
    return {"data": body, "headers": {"Content-Type": media_type, "Content-Encoding": coding}}


@pytest.mark.parametrize("coding, pack", CODINGS)
def test_three_bars_may_be_compressed(service, coding, pack):
    close = np.array([100.0, 101.0, 102.0])
    for body, media_type in [
        (close.tobytes(), wire.OCTET),
        (json.dumps({"close": close.tolist()}).encode(), wire.JSON),
        (wire.stream(wire.series(close)), wire.ARROW),
    ]:
        assert wire.same_bits(wire.close_of(service.echo(**send(pack(body), media_type, coding))), close)


@pytest.mark.parametrize("coding, pack", CODINGS)
def test_a_compressed_sweep_gives_the_golden_results(service, gbm42, few, coding, pack):
    body = json.dumps({"close": gbm42.tolist(), "lengths": few.lengths}).encode()
    wire.check(service.sweep(**send(pack(body), wire.JSON, coding)), few.want)


def test_a_compressed_body_may_come_in_chunks(service, gbm42):
    packed = gzipped(gbm42.tobytes())
    chunks = (packed[i : i + 10_000] for i in range(0, len(packed), 10_000))
    assert wire.same_bits(wire.close_of(service.echo(**send(chunks, wire.OCTET, "gzip"))), gbm42)


@pytest.mark.parametrize("coding, pack", CODINGS)
def test_a_small_body_that_expands_past_the_limit_is_too_large(service, coding, pack):
    bomb = pack(bytes(65 << 20))
    assert len(bomb) < 1 << 20
    wire.problem(service.echo(**send(bomb, wire.OCTET, coding)), 413)
    assert service.echo(data=bytes(8)).content == bytes(8)


@pytest.mark.parametrize("coding, pack", CODINGS)
def test_a_damaged_body_is_malformed(service, gbm42, coding, pack):
    packed = pack(gbm42[:1000].tobytes())
    for bad in packed[:-1], packed[: len(packed) // 2], gbm42[:1000].tobytes(), packed + b"garbage":
        wire.problem(service.echo(**send(bad, wire.OCTET, coding)), 400)


@pytest.mark.parametrize("coding", ["br", "deflate", "compress"])
def test_other_codings_are_refused_with_a_list_of_what_is_accepted(service, coding):
    r = service.echo(**send(b"x", wire.OCTET, coding))
    wire.problem(r, 415)
    assert r.headers["Accept-Encoding"] == "gzip, zstd"


@pytest.mark.parametrize("accept", [wire.JSON, wire.MSGPACK, wire.ARROW, wire.OCTET])
def test_answers_are_not_compressed_because_requests_asks_out_of_habit(service, gbm42, accept):
    assert "gzip" in service.session.headers["Accept-Encoding"]
    r = service.echo(data=gbm42.tobytes(), headers={"Accept": accept})
    assert "Content-Encoding" not in r.headers
    assert int(r.headers["Content-Length"]) == len(r.content)
