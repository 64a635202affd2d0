"""Content-Type and Accept as clients write them."""

import json

import numpy as np
import pytest

import wire

CLOSE = [100.0, 101.0, 102.0]
BODY = json.dumps({"close": CLOSE})


@pytest.mark.parametrize(
    "content_type", ["Application/JSON;charset=UTF-8", "application/json; charset=utf-8", 'application/json;charset="utf-8"', "APPLICATION/JSON", "application/json;q=1;x=y"]
)
def test_json_may_be_spelt_in_many_ways(service, content_type):
    assert wire.same_bits(wire.close_of(service.echo(**wire.typed(BODY, content_type))), CLOSE)


@pytest.mark.parametrize("content_type", ["multipart/form-data; boundary=application/json", "text/plain", "text/json", "application/json2", "application/jso", "json", "application/json; charset=utf-16"])
def test_other_types_are_refused_with_a_list_of_what_is_accepted(service, content_type):
    r = service.echo(**wire.typed(BODY, content_type))
    p = wire.problem(r, 415)
    for known in wire.JSON, wire.MSGPACK, wire.ARROW, wire.OCTET:
        assert known in p["detail"] and known in r.headers["Accept-Post"]


def test_a_form_that_requests_makes_of_a_dict_is_refused(service):
    wire.problem(service.echo(data={"close": CLOSE}), 415)
    wire.problem(service.echo(files={"close": np.array(CLOSE).tobytes()}), 415)


ACCEPTED = [
    (None, wire.JSON),
    ("", wire.JSON),
    ("*/*", wire.JSON),
    ("application/*", wire.JSON),
    ("application/json;q=0.1, application/msgpack", wire.MSGPACK),
    ("application/json;q=0.1,application/msgpack;q=0.2", wire.MSGPACK),
    ("application/octet-stream, */*;q=0.1", wire.OCTET),
    ("text/html, application/xhtml+xml, */*;q=0.8", wire.JSON),
    ("APPLICATION/OCTET-STREAM", wire.OCTET),
    ("application/vnd.apache.arrow.stream;q=0.5, application/json;q=0.4", wire.ARROW),
    ("application/json2, application/x-msgpack", wire.MSGPACK),
    ("application/octet-stream;q=0.9, application/json;q=0.9", wire.JSON),
    ("application/*;q=0.2, application/octet-stream;q=0.1, application/json;q=0.1", wire.MSGPACK),
]


@pytest.mark.parametrize("accept, want", ACCEPTED)
def test_the_answer_is_in_the_format_liked_best(service, accept, want):
    r = service.echo(data=BODY, headers={"Content-Type": wire.JSON, "Accept": accept})
    assert wire.media_type(r) == want
    assert "Accept" in r.headers["Vary"]
    assert wire.same_bits(wire.close_of(r), CLOSE)


def test_a_refused_format_is_not_sent(service):
    r = service.echo(data=BODY, headers={"Content-Type": wire.JSON, "Accept": "application/json;q=0, */*"})
    assert wire.media_type(r) != wire.JSON
    assert wire.same_bits(wire.close_of(r), CLOSE)


@pytest.mark.parametrize("accept", ["application/json2", "text/html", "*/*;q=0", "application/json;q=0"])
def test_a_list_of_nothing_that_can_be_sent_is_refused(service, accept):
    r = service.echo(data=BODY, headers={"Content-Type": wire.JSON, "Accept": accept})
    p = wire.problem(r, 406)
    for known in wire.JSON, wire.MSGPACK, wire.ARROW, wire.OCTET:
        assert known in p["detail"]


def test_the_default_of_requests_gets_the_format_it_sent(service):
    assert service.session.headers["Accept"] == "*/*"
    close = np.array(CLOSE)
    assert wire.media_type(service.echo(data=close.tobytes())) == wire.OCTET
    assert wire.media_type(service.echo(json={"close": CLOSE})) == wire.JSON
    assert wire.media_type(service.echo(**wire.typed(wire.stream(wire.series(close)), wire.ARROW))) == wire.ARROW
