"""Every edge of float64, from every library and to it, bit for bit."""

import json
import struct

import msgpack
import numpy as np
import pyarrow as pa
import pytest

import edges
import wire


def echo(service, send, accept):
    send["headers"] = send.get("headers", {}) | {"Accept": accept}
    return service.echo(**send)


def test_the_edges_are_those_that_they_are_said_to_be():
    assert edges.ALL.dtype == np.float64 and np.isfinite(edges.FINITE).all() and np.isnan(edges.SIGNALLING).all()
    bits = set(edges.FINITE.view(np.uint64).tolist())
    for name, pattern in {"-0.0": 1 << 63, "least": 1, "largest subnormal": (1 << 52) - 1, "least normal": 1 << 52, "max": 0x7FEFFFFFFFFFFFFF}.items():
        assert pattern in bits, name
    assert all(len(repr(v).split("e")[0].replace(".", "").strip("0")) >= 16 for v in edges.SEVENTEEN.tolist())


@pytest.mark.parametrize("codec", [wire.JSON, "application/json; codec=std"])
def test_pythons_own_json_reads_and_writes_the_same_bits(service, codec):
    body = json.dumps({"close": edges.FINITE.tolist()})
    assert wire.same_bits(wire.close_of(echo(service, wire.typed(body, codec), wire.OCTET)), edges.FINITE)
    r = echo(service, {"data": edges.FINITE.tobytes()}, codec)
    assert wire.same_bits(json.loads(r.content)["close"], edges.FINITE)


def test_arrays_of_msgpack_carry_every_bit(service):
    close = np.concatenate([edges.FINITE, edges.QUIET])
    body = wire.typed(msgpack.packb({"close": close.tolist()}), wire.MSGPACK)
    assert wire.same_bits(wire.close_of(echo(service, dict(body), wire.OCTET)), close)
    answer = msgpack.unpackb(echo(service, dict(body), wire.MSGPACK).content)
    assert list(answer) == ["close"] and all(type(v) is float for v in answer["close"])
    assert wire.same_bits(answer["close"], close)


def test_arrays_of_msgpack_are_written_by_the_specification(service):
    """Every number is 0xcb and the big-endian double, so that any NaN can be read by hand."""
    content = echo(service, {"data": edges.ALL.tobytes()}, wire.MSGPACK).content
    head = b"\x81\xa5close\xdc" + struct.pack(">H", len(edges.ALL))
    assert content.startswith(head) and len(content) == len(head) + 9 * len(edges.ALL)
    numbers = np.frombuffer(content, np.dtype([("tag", "u1"), ("value", ">u8")]), offset=len(head))
    assert (numbers["tag"] == 0xCB).all() and np.array_equal(numbers["value"], edges.ALL.view(np.uint64))


@pytest.mark.parametrize("stream", [False, True])
def test_bin_of_msgpack_carries_every_bit(service, stream):
    packer = msgpack.Packer(use_bin_type=True)
    body = packer.pack_map_header(1) + packer.pack("close") + packer.pack(edges.ALL.tobytes()) if stream else msgpack.packb({"close": edges.ALL.tobytes()})
    content = echo(service, wire.typed(body, wire.MSGPACK), wire.MSGPACK).content
    assert content == body
    unpacker = msgpack.Unpacker()
    unpacker.feed(content)
    assert unpacker.unpack() == {"close": edges.ALL.tobytes()}


def test_single_floats_of_msgpack_are_widened(service):
    narrow = edges.FINITE[np.abs(edges.FINITE) < 3e38].astype(np.float32)
    body = msgpack.packb({"close": narrow.tolist()}, use_single_float=True)
    assert len(body) == len(b"\x81\xa5close\xdc..") + 5 * len(narrow)
    r = echo(service, wire.typed(body, wire.MSGPACK), wire.OCTET)
    assert wire.same_bits(wire.close_of(r), narrow.astype(np.float64))


@pytest.mark.parametrize("dtype", ["<f8", "=f8", np.float64])
def test_octets_of_numpy_carry_every_bit(service, dtype):
    close = edges.ALL.astype(dtype)
    r = service.echo(data=close.tobytes())
    assert r.content == close.tobytes() and wire.same_bits(np.frombuffer(r.content, dtype), edges.ALL)
    r = service.echo(**wire.typed(wire.frame(1, close), wire.OCTET))
    assert r.content == close.tobytes()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_carries_every_bit(service, compression):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    for table in wire.series(edges.ALL), wire.series(edges.ALL).slice(3):
        body = wire.stream(table, options, max_chunksize=5000)
        r = service.echo(**wire.typed(body, wire.ARROW))
        assert wire.same_bits(wire.close_of(r), table["close"].to_numpy())


ANSWERS = [wire.JSON, "application/json; codec=std", wire.MSGPACK, wire.MSGPACK_BIN, wire.ARROW, wire.OCTET]


@pytest.mark.parametrize("accept", ANSWERS)
@pytest.mark.parametrize("send", ANSWERS)
def test_every_format_hands_the_edges_to_every_other(service, send, accept):
    bodies = {
        wire.JSON: lambda: json.dumps({"close": edges.FINITE.tolist()}),
        wire.MSGPACK: lambda: msgpack.packb({"close": edges.FINITE.tolist()}),
        wire.MSGPACK_BIN: lambda: msgpack.packb({"close": edges.FINITE.tobytes()}),
        wire.ARROW: lambda: wire.stream(wire.series(edges.FINITE)),
        wire.OCTET: edges.FINITE.tobytes,
    }
    body = bodies.get(send, bodies[wire.JSON])()
    assert wire.same_bits(wire.close_of(echo(service, wire.typed(body, send), accept)), edges.FINITE)
