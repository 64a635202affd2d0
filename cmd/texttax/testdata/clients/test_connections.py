"""Connections of requests: kept over refusals, and closed so that a refusal can be read."""

import concurrent.futures
import json

import msgpack
import numpy as np
import pytest
import requests

import wire
from conftest import Service

REFUSALS = [
    (400, lambda s: s.echo(data=b"1234")),
    (400, lambda s: s.echo(data="{", headers={"Content-Type": wire.JSON})),
    (404, lambda s: s.request("POST", "/nothing", data=bytes(800))),
    (404, lambda s: s.sweep(json={"dataset": "nothing", "lengths": [6]})),
    (405, lambda s: s.request("GET", "/sweep")),
    (405, lambda s: s.request("PUT", "/sweep", data=bytes(800))),
    (406, lambda s: s.echo(data=bytes(800), headers={"Accept": "text/html"})),
    (415, lambda s: s.echo(data=bytes(800), headers={"Content-Type": "text/csv"})),
    (422, lambda s: s.sweep(params={"lengths": 6}, data=bytes(800))),
]


def opened(service):
    """How many connections the session has opened to the server."""
    pools = service.session.get_adapter(service.url).poolmanager.pools
    return sum(pools[key].num_connections for key in pools.keys())


def test_a_session_keeps_its_connection_over_refusals(service):
    for status, ask in REFUSALS:
        wire.problem(ask(service), status)
        assert service.echo(data=bytes(16)).content == bytes(16)
    assert opened(service) == 1


def test_a_session_keeps_its_connection_over_large_bodies(service, gbm42):
    for _ in range(5):
        assert service.echo(data=gbm42.tobytes()).content == gbm42.tobytes()
        wire.problem(service.sweep(params={"lengths": 6}, data=np.append(gbm42, 0).tobytes()), 422)
    assert opened(service) == 1


def test_head_is_answered_without_a_body_and_the_connection_is_kept(service):
    r = service.request("HEAD", "/datasets/gbm42", headers={"Accept": wire.OCTET})
    assert r.status_code == 200 and r.headers["Content-Length"] == "1200000" and r.content == b""
    r = service.request("HEAD", "/sweep")
    assert r.status_code == 405 and r.headers["Allow"] == "POST"
    assert service.echo(data=bytes(8)).content == bytes(8)
    assert opened(service) == 1


@pytest.mark.parametrize("path", ["/sweep/", "//sweep"])
def test_a_slash_too_many_never_turns_a_post_into_a_get(service, path):
    r = service.request("POST", path, params={"lengths": 6, "dataset": "gbm42"})
    if r.history:
        assert {h.status_code for h in r.history} == {308} and r.request.method == "POST"
        assert wire.results_of(r).pnl.tolist() == [-5165.584357716994]
    else:
        wire.problem(r, 404)


@pytest.mark.parametrize("attempt", range(3))
def test_the_413_of_a_body_that_is_declared_too_long_can_be_read(url, attempt):
    r = requests.post(url + "/echo", data=bytes(65 << 20), timeout=60)
    assert "67108864" in wire.problem(r, 413)["detail"]


@pytest.mark.parametrize("attempt", range(3))
def test_the_413_of_a_chunked_body_can_be_read(url, attempt):
    chunk = bytes(1 << 20)
    r = requests.post(url + "/echo", data=(chunk for _ in range(80)), timeout=60)
    wire.problem(r, 413)


def test_a_body_of_just_the_limit_is_taken(url):
    body = bytes(64 << 20)
    r = requests.post(url + "/echo", data=body, timeout=60)
    assert r.status_code == 200 and r.content == body


@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize(
    "status, headers",
    [(415, {"Content-Type": "text/csv"}), (406, {"Accept": "text/html"}), (415, {"Content-Encoding": "br"}), (404, None), (405, None)],
)
def test_a_refusal_can_be_read_though_megabytes_are_on_their_way(service, attempt, status, headers):
    path, method = {404: ("/nothing", "POST"), 405: ("/echo", "PUT")}.get(status, ("/echo", "POST"))
    wire.problem(service.request(method, path, data=bytes(16 << 20), headers=headers), status)
    assert service.echo(data=bytes(8)).content == bytes(8)


def test_a_terabyte_that_is_only_declared_is_refused_at_once(service):
    r = requests.Request("POST", service.url + "/echo").prepare()
    r.headers["Content-Length"] = str(2**40)
    answer = service.session.send(r, timeout=5)
    wire.problem(answer, 413)
    assert answer.elapsed.total_seconds() < 2


def test_options_is_not_allowed_without_cors(service):
    r = service.request("OPTIONS", "/sweep", headers={"Origin": "http://example.com"})
    wire.problem(r, 405)
    assert r.headers["Allow"] == "POST"


def test_the_id_of_a_request_comes_back(service):
    r = service.echo(data=b"1234", headers={"X-Request-Id": "notebook-1.7"})
    assert wire.problem(r, 400)["instance"] == "notebook-1.7"


def mine(i):
    """A series that nobody else sends, of a length that nobody else has."""
    return 100 + np.random.default_rng(i).normal(0, 1, 500 + 37 * i)


def test_sessions_in_threads_get_their_own_bytes(url):
    def echoes(i):
        service = Service(url)
        with service.session:
            for round in range(15):
                close = mine(i) + round
                sends = [
                    {"data": close.tobytes()},
                    {"json": {"close": close.tolist()}},
                    wire.typed(msgpack.packb({"close": close.tolist()}), wire.MSGPACK),
                    wire.typed(msgpack.packb({"close": close.tobytes()}), wire.MSGPACK),
                    wire.typed(wire.stream(wire.series(close)), wire.ARROW),
                ]
                for j, send in enumerate(sends):
                    accept = [wire.OCTET, wire.JSON, wire.MSGPACK, wire.ARROW][(i + j + round) % 4]
                    send["headers"] = send.get("headers", {}) | {"Accept": accept}
                    assert wire.same_bits(wire.close_of(service.echo(**send)), close)
            assert opened(service) == 1

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(echoes, range(16)))


def test_sweeps_in_threads_get_their_own_results(url):
    def sweep(service, i):
        body = json.dumps({"close": mine(i).tolist(), "lengths": [6, 8, 10 + i]})
        return wire.results_of(service.sweep(**wire.typed(body, wire.JSON)))

    def sweeps(i):
        service = Service(url)
        with service.session:
            return [sweep(service, i) for _ in range(10)]

    alone = Service(url)
    with alone.session, concurrent.futures.ThreadPoolExecutor(16) as pool:
        want = [sweep(alone, i) for i in range(16)]
        assert len({w.pnl[0] for w in want}) == 16
        for w, results in zip(want, pool.map(sweeps, range(16))):
            for got in results:
                assert wire.same_bits(got.pnl, w.pnl) and list(got.trades) == list(w.trades) and list(got.open) == list(w.open)


def test_one_session_shared_by_threads_gets_every_answer_right(service):
    def echo(i):
        close = mine(i % 40)
        assert wire.same_bits(wire.close_of(service.echo(data=close.tobytes())), close)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(echo, range(200)))
