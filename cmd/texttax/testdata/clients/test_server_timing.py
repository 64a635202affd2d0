"""The phases in Server-Timing, as a client adds them up."""

import re
import time

import pytest

import wire

PHASES = ["transit_in", "decompress", "decode", "queue", "compute", "encode", "compress"]


def phases(response):
    """The durations in seconds, by name, in the order of the header."""
    found = re.findall(r"([a-z_]+);dur=([0-9.]+)", response.headers["Server-Timing"])
    assert ", ".join(f"{name};dur={dur}" for name, dur in found) == response.headers["Server-Timing"]
    return {name: float(dur) / 1000 for name, dur in found}


def test_phases_are_known_and_in_order(service, gbm42):
    for r in [
        service.echo(data=gbm42.tobytes()),
        service.sweep(params={"lengths": "6:40:10"}, json={"close": gbm42.tolist()}),
        service.request("GET", "/datasets/gbm42"),
        service.echo(data=b"1234"),
    ]:
        names = list(phases(r))
        assert names and names == sorted(names, key=PHASES.index) and len(set(names)) == len(names)


@pytest.mark.parametrize("attempt", range(20))
def test_phases_add_up_to_no_more_than_the_client_waited(service, gbm42, attempt):
    n = [3, 1000, 150_000][attempt % 3]
    for ask in [
        lambda: service.echo(data=gbm42[:n].tobytes()),
        lambda: service.echo(json={"close": gbm42[:n].tolist()}),
        lambda: service.sweep(params={"lengths": "6:20:5"}, **wire.typed(wire.stream(wire.series(gbm42[:n])), wire.ARROW)),
        lambda: service.sweep(params={"lengths": "6", "dataset": "gbm42"}),
    ]:
        begun = time.perf_counter()
        r = ask()
        waited = time.perf_counter() - begun
        total = sum(phases(r).values())
        # The header comes with the first byte of the answer, where elapsed stops.
        assert 0 < total <= r.elapsed.total_seconds() <= waited


def test_an_echo_computes_nothing(service, gbm42):
    assert phases(service.echo(data=gbm42.tobytes())).get("compute", 0) == 0


def test_a_sweep_of_a_preloaded_series_is_mostly_compute(service):
    r = service.sweep(params={"lengths": "6:40:10", "dataset": "gbm42"})
    p = phases(r)
    assert p["compute"] > 0.5 * sum(p.values())


def test_what_is_sent_slowly_is_transit(service, gbm42):
    def slowly():
        body = gbm42.tobytes()
        for at in range(0, len(body), 400_000):
            time.sleep(0.1)
            yield body[at : at + 400_000]

    r = service.echo(data=slowly())
    assert wire.same_bits(wire.close_of(r), gbm42)
    p = phases(r)
    assert p["transit_in"] > 0.15
    assert sum(p.values()) - p["transit_in"] < 0.1


def test_reading_json_costs_more_than_reading_bytes(service, gbm42):
    text = min(phases(service.echo(json={"close": gbm42.tolist()}))["decode"] for _ in range(5))
    octets = min(phases(service.echo(data=gbm42.tobytes()))["decode"] for _ in range(5))
    assert text > 10 * octets
