"""Clients of a texttax server, as its users write them.

The server is the one at $TEXTTAX_URL, started with its default flags, and with
frames on the socket $TEXTTAX_FRAMES; $TEXTTAX is the program. By hand:

    texttax serve --frame-listen unix:/tmp/frames
    TEXTTAX_URL=http://127.0.0.1:8080 TEXTTAX_FRAMES=/tmp/frames TEXTTAX=texttax \
        python -m pytest cmd/texttax/testdata/clients
"""

import json
import os
import pathlib

import numpy as np
import pytest
import requests

import wire

KERNEL = pathlib.Path(__file__).parents[4] / "kernel"
GOLDEN = KERNEL / "testdata"


class Service:
    """The server, asked through one requests.Session."""

    def __init__(self, url):
        self.url = url
        self.session = requests.Session()

    def request(self, method, path, **kwargs):
        return self.session.request(method, self.url + path, timeout=60, **kwargs)

    def sweep(self, **kwargs):
        return self.request("POST", "/sweep", **kwargs)

    def echo(self, **kwargs):
        return self.request("POST", "/echo", **kwargs)


@pytest.fixture(scope="session")
def url():
    if "TEXTTAX_URL" not in os.environ:
        pytest.exit("set TEXTTAX_URL to the address of a texttax server, such as http://127.0.0.1:8080", returncode=2)
    return os.environ["TEXTTAX_URL"]


@pytest.fixture
def service(url):
    service = Service(url)
    with service.session:
        yield service


@pytest.fixture(scope="session")
def gbm42():
    """The demo series, as it was published."""
    return np.fromfile(KERNEL / "gbm42" / "close.f64", "<f8")


@pytest.fixture(scope="session")
def grid():
    """The golden sweep over gbm42: 80 lengths, their windows and results."""
    rows = json.loads((GOLDEN / "sweep_gbm42.json").read_text())
    results = wire.Results([r["pnl"] for r in rows], [r["trades"] for r in rows], None)
    return wire.Case("gbm42", None, 0.0009, [r["windows"] for r in rows], results, [r["length"] for r in rows])


@pytest.fixture(scope="session")
def few(grid):
    """The first lengths of the golden sweep, for tests that are not about the kernel."""
    results = wire.Results(grid.want.pnl[:5], grid.want.trades[:5], None)
    return wire.Case(grid.name, None, grid.fee, grid.windows[:5], results, grid.lengths[:5])


def edge_cases():
    for c in json.loads((GOLDEN / "edge_cases.json").read_text()):
        results = wire.Results(c["pnl"], c["trades"], c["open"])
        yield wire.Case(c["name"], np.array(c["close"]), c["fee"], c["windows"], results)


@pytest.fixture(params=edge_cases(), ids=lambda case: case.name)
def edge_case(request):
    return request.param
