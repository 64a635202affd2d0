"""Bytes of numpy arrays are taken as they are, and only whole."""

import numpy as np
import pytest

import wire


def test_big_endian_bytes_come_back_as_they_came(service, gbm42):
    body = gbm42[:1000].astype(">f8").tobytes()
    assert service.echo(data=body).content == body


def test_a_tail_of_four_bytes_is_malformed_and_not_dropped(service, gbm42):
    for tail in 2, 4, 7:
        body = gbm42[:1000].tobytes() + bytes(tail)
        wire.problem(service.echo(data=body), 400)
        wire.problem(service.sweep(params={"lengths": 6}, data=body), 400)


def test_an_array_of_float32_is_not_mistaken_for_prices(service):
    body = np.full(101, 100, np.float32).tobytes()
    wire.problem(service.sweep(params={"lengths": 6}, data=body), 400)


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a[::-1], lambda a: a.reshape(10, 100)[:, 3]])
def test_strided_arrays_come_as_tobytes_lays_them_out(service, gbm42, view):
    array = view(gbm42[:1000])
    assert wire.same_bits(wire.close_of(service.echo(data=array.tobytes())), array)


def test_a_memoryview_is_a_body(service, gbm42):
    r = service.echo(data=memoryview(gbm42).cast("B"), headers={"Content-Type": wire.OCTET})
    assert wire.same_bits(wire.close_of(r), gbm42)


def test_a_frame_whose_counts_do_not_fit_its_length_is_malformed(service):
    good = wire.frame(0, [100.0, 101.0], [[3, 6, 2, 1, 2, 3]])
    assert service.sweep(data=good).status_code == 200
    for lie in [
        wire.frame(0, [100.0]) + good[17:],
        good[:1] + b"\xff\xff\xff\xff" + good[5:],
        good[:5] + b"\xff\xff\xff\xff" + good[9:],
        good + bytes(8),
        good[:-8],
    ]:
        wire.problem(service.sweep(data=lie), 400)


def test_the_opcode_must_fit_the_endpoint(service):
    assert wire.problem(service.sweep(data=wire.frame(1, [100.0], [[1] * 6])), 422)["field"] == "opcode"
    assert wire.problem(service.echo(data=wire.frame(0, [100.0], [[1] * 6])), 422)["field"] == "opcode"


def test_an_empty_array_comes_back_empty(service):
    r = service.echo(data=wire.frame(1, []))
    assert r.status_code == 200 and r.content == b""
