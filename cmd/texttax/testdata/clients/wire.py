"""The bodies of requests and answers, by the libraries that users take for them."""

import dataclasses
import io
import struct

import msgpack
import numpy as np
import pyarrow as pa

JSON = "application/json"
MSGPACK = "application/vnd.msgpack"
MSGPACK_BIN = "application/vnd.msgpack; numbers=bin"
ARROW = "application/vnd.apache.arrow.stream"
OCTET = "application/octet-stream"

WINDOWS = ["hma_half", "hma_full", "hma_smooth", "hma3_third", "hma3_half", "hma3_full"]


@dataclasses.dataclass
class Results:
    pnl: list
    trades: list
    open: list | None  # None where it isn't known, or the format has no place for it


@dataclasses.dataclass
class Case:
    """A series with combos, and what a sweep of them must give."""

    name: str
    close: np.ndarray | None
    fee: float
    windows: list
    want: Results
    lengths: list | None = None

    @property
    def query(self):
        return {"lengths": ",".join(map(str, self.lengths))}


def typed(body, media_type):
    """The arguments by which requests sends a body of a media type."""
    return {"data": body, "headers": {"Content-Type": media_type}}


def frame(opcode, close, windows=()):
    head = struct.pack("<BII", opcode, len(close), len(windows))
    return head + np.asarray(close, "<f8").tobytes() + np.asarray(windows, "<i8").tobytes()


def stream(table, options=None, max_chunksize=None):
    """The IPC stream of a table."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=max_chunksize)
    return sink.getvalue()


def series(close):
    return pa.table({"close": close})


def combos(windows, type=pa.int64()):
    columns = zip(*windows)
    return pa.table({name: pa.array(column, type) for name, column in zip(WINDOWS, columns)})


def media_type(response):
    assert response.status_code == 200, response.text[:300]
    return response.headers["Content-Type"]


def numbers(column, dtype):
    """A column of a map: an array of numbers, or their little-endian bytes."""
    if isinstance(column, bytes):
        return np.frombuffer(column, np.dtype(dtype).newbyteorder("<"))
    return np.array(column, dtype)


def close_of(response):
    """The series in an answer of any format."""
    match media_type(response):
        case "application/json":
            return numbers(response.json()["close"], np.float64)
        case "application/vnd.msgpack":
            return numbers(msgpack.unpackb(response.content)["close"], np.float64)
        case "application/vnd.apache.arrow.stream":
            return pa.ipc.open_stream(response.content).read_all()["close"].to_numpy()
        case "application/octet-stream":
            return np.frombuffer(response.content, "<f8")
    raise AssertionError(response.headers["Content-Type"])


def results_of(response):
    """The results in an answer of any format."""
    match media_type(response):
        case "application/json":
            answer = response.json()
        case "application/vnd.msgpack":
            answer = msgpack.unpackb(response.content)
        case "application/vnd.apache.arrow.stream":
            answer = pa.ipc.open_stream(response.content).read_all().to_pydict()
        case "application/octet-stream":
            n = len(response.content) // 16
            answer = {
                "pnl": np.frombuffer(response.content, "<f8", count=n),
                "trades": np.frombuffer(response.content, "<i8", offset=8 * n),
                "open": None,
            }
        case other:
            raise AssertionError(other)
    assert set(answer) == {"pnl", "trades", "open"}
    return Results(
        numbers(answer["pnl"], np.float64),
        numbers(answer["trades"], np.int64),
        None if answer["open"] is None else numbers(answer["open"], np.int8),
    )


def same_bits(got, want):
    """Tells whether two series are the same, down to NaN payloads and -0."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return got.shape == want.shape and np.array_equal(got.view(np.uint64), want.view(np.uint64))


def check(response, want):
    """Asserts that an answer has the wanted results, bit for bit."""
    got = results_of(response)
    assert got.pnl.tolist() == list(want.pnl) and same_bits(got.pnl, want.pnl)
    assert list(got.trades) == list(want.trades)
    if got.open is not None and want.open is not None:
        assert list(got.open) == list(want.open)


def problem(response, status):
    """The problem in a refusal, once it is sure to be one that is complete."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:300]}"
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["type"].startswith("urn:texttax:problem:")
    assert body["title"] and body["detail"]
    assert body["instance"] == response.headers["X-Request-Id"]
    return body


def blames(response, field, index, status=422):
    """Asserts that a refusal names the element at fault, and returns its words."""
    body = problem(response, status)
    assert (body.get("field"), body.get("index")) == (field, index), body
    return body["detail"]
