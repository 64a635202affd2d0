"""Sweeps give numba's bits, whichever library sends and reads them."""

import hashlib
import itertools
import json

import msgpack
import numpy as np
import pytest
import requests

import wire

GRID = {"lengths": "6:200:80"}


def test_the_demo_series_is_the_published_one(service):
    r = service.request("GET", "/datasets/gbm42", headers={"Accept": wire.OCTET})
    published = "42e58fb99a4734653ea5a9f7f6dbddf8204b626754a448a8a78560d02511b947"
    assert hashlib.sha256(r.content).hexdigest() == published
    assert r.headers["ETag"] == f'"{published}"'


@pytest.mark.parametrize("accept", [wire.JSON, wire.MSGPACK, wire.MSGPACK_BIN, wire.ARROW, wire.OCTET])
def test_the_demo_series_is_the_same_in_every_format(service, gbm42, accept):
    r = service.request("GET", "/datasets/gbm42", headers={"Accept": accept})
    assert wire.same_bits(wire.close_of(r), gbm42)


def test_the_demo_series_follows_its_recipe(service):
    """Not to the bit: numpy's exp is not correctly rounded, and its last bits differ
    from one CPU to the next."""
    r = service.request("GET", "/datasets/gbm42", headers={"Accept": wire.OCTET})
    recipe = 100 * np.exp(np.cumsum(np.random.default_rng(42).normal(0, 0.0008, 150_000)))
    np.testing.assert_array_max_ulp(wire.close_of(r), recipe, maxulp=4)


def test_the_range_of_lengths_is_numpys_linspace(grid):
    assert grid.lengths == np.floor(np.linspace(6, 200, 80)).astype(int).tolist()


def test_bare_bytes_need_no_content_type(url, gbm42, grid):
    r = requests.post(url + "/sweep", params=GRID, data=gbm42.tobytes(), timeout=60)
    assert "Content-Type" not in r.request.headers
    wire.check(r, grid.want)


def json_by_requests(close, lengths):
    return {"json": {"close": close.tolist(), "lengths": lengths}}


def json_by_encoding_json(close, lengths):
    return wire.typed(json.dumps({"close": close.tolist(), "lengths": lengths}), "application/json; codec=std")


def msgpack_lists(close, lengths):
    return wire.typed(msgpack.packb({"close": close.tolist(), "lengths": lengths}), wire.MSGPACK)


def msgpack_numpy_scalars(close, lengths):
    return wire.typed(msgpack.packb({"close": list(close), "lengths": lengths}), wire.MSGPACK)


def msgpack_bin(close, lengths):
    body = msgpack.packb({"close": close.tobytes(), "lengths": lengths}, use_bin_type=True)
    return wire.typed(body, wire.MSGPACK_BIN)


def one_arrow_stream(close, lengths):
    return wire.typed(wire.stream(wire.series(close)), wire.ARROW) | {"params": GRID}


@pytest.mark.parametrize(
    "send",
    [
        json_by_requests,
        json_by_encoding_json,
        msgpack_lists,
        msgpack_numpy_scalars,
        msgpack_bin,
        one_arrow_stream,
    ],
)
def test_a_sweep_of_80_lengths_gives_the_golden_grid(service, gbm42, grid, send):
    wire.check(service.sweep(**send(gbm42, grid.lengths)), grid.want)


def test_a_sweep_of_the_preloaded_series_gives_the_golden_grid(service, grid):
    wire.check(service.sweep(json={"dataset": "gbm42", "lengths": grid.lengths}), grid.want)
    wire.check(service.sweep(params=GRID | {"dataset": "gbm42"}), grid.want)


def octet_frame(close, windows):
    return wire.typed(wire.frame(0, close, windows), wire.OCTET)


def json_params(close, windows):
    return {"json": {"close": close.tolist(), "params": windows}}


def json_std_params(close, windows):
    return wire.typed(json.dumps({"close": close.tolist(), "params": windows}), "application/json; codec=std")


def msgpack_params(close, windows):
    return wire.typed(msgpack.packb({"close": close.tolist(), "params": windows}), wire.MSGPACK)


def msgpack_bin_params(close, windows):
    packed = {"close": close.tobytes(), "params": np.array(windows, "<i8").tobytes()}
    return wire.typed(msgpack.packb(packed, use_bin_type=True), wire.MSGPACK_BIN)


def two_arrow_streams(close, windows):
    return wire.typed(wire.stream(wire.series(close)) + wire.stream(wire.combos(windows)), wire.ARROW)


def two_arrow_streams_combos_first(close, windows):
    return wire.typed(wire.stream(wire.combos(windows)) + wire.stream(wire.series(close)), wire.ARROW)


WITH_WINDOWS = [
    octet_frame,
    json_params,
    json_std_params,
    msgpack_params,
    msgpack_bin_params,
    two_arrow_streams,
    two_arrow_streams_combos_first,
]


@pytest.mark.parametrize("send", WITH_WINDOWS)
def test_a_sweep_of_480_windows_gives_the_golden_grid(service, gbm42, grid, send):
    wire.check(service.sweep(**send(gbm42, grid.windows)), grid.want)


@pytest.mark.parametrize("send", WITH_WINDOWS)
def test_edge_cases_give_numbas_results_in_the_format_of_the_request(service, edge_case, send):
    r = service.sweep(params={"fee": edge_case.fee}, **send(edge_case.close, edge_case.windows))
    wire.check(r, edge_case.want)


def test_edge_cases_give_numbas_results_in_every_other_format(service, edge_case):
    answers = [wire.JSON, "application/json; codec=std", wire.MSGPACK, wire.MSGPACK_BIN, wire.ARROW, wire.OCTET]
    for send, accept in itertools.product(WITH_WINDOWS, answers):
        kwargs = send(edge_case.close, edge_case.windows)
        kwargs["headers"] = kwargs.get("headers", {}) | {"Accept": accept}
        r = service.sweep(params={"fee": edge_case.fee}, **kwargs)
        assert wire.media_type(r) == accept.split(";")[0]
        assert (wire.results_of(r).open is None) == (accept == wire.OCTET)
        wire.check(r, edge_case.want)


def test_the_fee_may_stand_in_the_body(service, edge_case):
    wanted = {"close": edge_case.close.tolist(), "params": edge_case.windows, "fee": edge_case.fee}
    wire.check(service.sweep(json=wanted), edge_case.want)
    wire.check(service.sweep(**wire.typed(msgpack.packb(wanted), wire.MSGPACK)), edge_case.want)
