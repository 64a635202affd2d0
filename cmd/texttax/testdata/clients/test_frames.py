"""The published frames, as a client of the study speaks them."""

import os
import socket
import struct
import subprocess

import numpy as np
import pytest

import wire
from frames import Frames


@pytest.fixture
def path():
    if "TEXTTAX_FRAMES" not in os.environ:
        pytest.exit("set TEXTTAX_FRAMES to the path of a socket with frames, of texttax serve --frame-listen unix:PATH", returncode=2)
    return os.environ["TEXTTAX_FRAMES"]


@pytest.fixture
def frames(path):
    return Frames(path)


def test_a_sweep_gives_the_golden_grid(frames, gbm42, grid):
    pnl, trades = frames.sweep(gbm42, grid.windows)
    assert wire.same_bits(pnl, grid.want.pnl) and trades.tolist() == grid.want.trades


def test_edge_cases_give_numbas_results(frames, edge_case):
    if edge_case.fee != 0.0009:
        pytest.skip("frames have no place for a fee")
    pnl, trades = frames.sweep(edge_case.close, edge_case.windows)
    assert wire.same_bits(pnl, edge_case.want.pnl) and trades.tolist() == edge_case.want.trades


@pytest.mark.parametrize("bars", [0, 1, 3, 511, 150_000])
def test_an_echo_gives_every_bit_back(frames, gbm42, bars):
    odd = np.concatenate([[np.nan, -0.0, np.inf, 5e-324], gbm42])[:bars]
    assert wire.same_bits(frames.echo(odd), odd)


def test_frames_may_be_sent_ahead(path, gbm42):
    frames = Frames(path)
    bodies = [wire.frame(1, gbm42[:n]) for n in range(200)]
    for body in bodies:
        frames.stream.write(struct.pack("<I", len(body)) + body)
    frames.stream.flush()
    for n in range(200):
        assert frames.read(struct.unpack("<I", frames.read(4))[0]) == gbm42[:n].tobytes()


def test_a_refused_frame_closes_the_connection(path):
    frames = Frames(path)
    with pytest.raises(ConnectionError):
        frames.sweep([100.0, np.nan], [[3, 6, 2, 1, 2, 3]])
    assert len(Frames(path).echo([1.0])) == 1


def test_a_client_that_ends_its_sending_half_still_gets_its_replies(path, gbm42, few):
    body = wire.frame(0, gbm42, few.windows)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(struct.pack("<I", len(body)) + body)
        s.shutdown(socket.SHUT_WR)
        reply = s.makefile("rb").read()
    assert len(reply) == 4 + 5 * 16
    assert np.frombuffer(reply, "<f8", 5, 4).tolist() == few.want.pnl


def test_a_process_for_each_call_gives_the_same(gbm42, few):
    body = wire.frame(0, gbm42, few.windows)
    sent = struct.pack("<I", len(body)) + body
    done = subprocess.run([os.environ["TEXTTAX"], "sweep", "--frame"], input=sent, capture_output=True, timeout=60, check=True)
    assert struct.unpack("<I", done.stdout[:4]) == (len(done.stdout) - 4,)
    assert np.frombuffer(done.stdout, "<f8", 5, 4).tolist() == few.want.pnl


FILES = {
    "npy": lambda path, close: np.save(path, close),
    "f64": lambda path, close: close.tofile(path),
    "csv": lambda path, close: pandas_of(close).to_csv(path),
    "parquet": lambda path, close: pandas_of(close).to_parquet(path),
    "feather": lambda path, close: pandas_of(close).to_feather(path),
}


def pandas_of(close):
    import pandas as pd

    return pd.DataFrame({"volume": range(len(close)), "close": close})


@pytest.mark.parametrize("extension", FILES)
def test_files_of_numpy_and_pandas_are_read(tmp_path, gbm42, few, extension):
    path = tmp_path / f"close.{extension}"
    FILES[extension](path, gbm42)
    lengths = ",".join(map(str, few.lengths))
    done = subprocess.run([os.environ["TEXTTAX"], "sweep", "--close", path, "--lengths", lengths], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert rows[0] == ["length", "pnl", "trades", "open"]
    assert [float(r[1]) for r in rows[1:]] == few.want.pnl
    assert [int(r[2]) for r in rows[1:]] == few.want.trades


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "brotli", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_parquet_in_every_packing_is_read(tmp_path, codec, dictionary):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, close = tmp_path / "p.parquet", np.round(np.random.default_rng(1).uniform(50, 60, 5000), 1)
    pq.write_table(pa.table({"adj": close}), path, compression=codec, use_dictionary=dictionary, row_group_size=700)
    got = subprocess.run([os.environ["TEXTTAX"], "sweep", "--close", path, "--column", "adj", "--lengths", "6"], capture_output=True, text=True, timeout=60)
    close.tofile(tmp_path / "p.f64")
    want = subprocess.run([os.environ["TEXTTAX"], "sweep", "--close", tmp_path / "p.f64", "--lengths", "6"], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr
    assert got.stdout == want.stdout != ""
