"""Frames from polars, in streams of its own writer, and answers in its own reader."""

import datetime
import decimal
import io

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import edges
import wire

LENGTHS = {"lengths": "6,8,10"}
COMPRESSIONS = ["uncompressed", "lz4", "zstd"]
LEVELS = [pl.CompatLevel.newest(), pl.CompatLevel.oldest()]
N = 24


def stream(frame, **options):
    out = io.BytesIO()
    frame.write_ipc_stream(out, **options)
    return out.getvalue()


def send(frame, **options):
    return wire.typed(stream(frame, **options), wire.ARROW)


def series(close):
    return pl.DataFrame({"close": close})


def in_chunks(frame, *cuts):
    parts = [frame[a:b] for a, b in zip((0, *cuts), (*cuts, len(frame)))]
    whole = pl.concat(parts, rechunk=False)
    assert whole["close"].n_chunks() == len(parts)
    return whole


def read(response):
    """The frame in an answer."""
    assert wire.media_type(response) == wire.ARROW
    return pl.read_ipc_stream(response.content)


def echoes(service, frame, **options):
    got = read(service.echo(**send(frame, **options)))
    assert got.schema == {"close": pl.Float64} and got["close"].null_count() == 0
    return got["close"].to_numpy()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("level", LEVELS, ids=["newest", "oldest"])
def test_every_bit_comes_back(service, gbm42, compression, level):
    for close in edges.ALL, gbm42, np.full(50_000, 100.25):
        got = echoes(service, series(close), compression=compression, compat_level=level)
        assert wire.same_bits(got, close)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_sweep_gives_the_golden_results(service, gbm42, few, compression):
    body = stream(series(gbm42), compression=compression)
    wire.check(service.sweep(params=few.query, **wire.typed(body, wire.ARROW)), few.want)
    body += stream(pl.DataFrame(few.windows, schema=wire.WINDOWS, orient="row"), compression=compression)
    wire.check(service.sweep(**wire.typed(body, wire.ARROW)), few.want)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_chunks_and_slices_are_the_whole_series(service, gbm42, compression):
    frame = series(gbm42[:10_000])
    for cut in [in_chunks(frame, 1), in_chunks(frame, 3000, 3001, 9990), frame[3:], frame[5:77], in_chunks(frame, 100, 200)[50:250], frame.gather_every(3), frame.reverse()]:
        assert wire.same_bits(echoes(service, cut, compression=compression), cut["close"].to_numpy())


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_null_is_named_by_its_row_in_the_frame(service, gbm42, compression):
    frame = series(gbm42[:5000]).with_columns(close=pl.when(pl.int_range(pl.len()).is_in([40, 4321])).then(None).otherwise("close"))
    assert frame["close"].null_count() == 2
    for cut, row in (frame, 40), (frame[40:], 0), (frame[41:], 4280), (in_chunks(frame[41:], 4000), 4280):
        for ask in service.echo, service.sweep:
            params = LENGTHS if ask == service.sweep else None
            wire.blames(ask(params=params, **send(cut, compression=compression)), "close", row)
    for cut in frame[41:4321], in_chunks(frame[41:4321], 7), frame.drop_nulls():
        assert wire.same_bits(echoes(service, cut, compression=compression), cut["close"].to_numpy())


def test_an_empty_frame_is_an_empty_series(service):
    frame = series(pl.Series([], dtype=pl.Float64))
    for compression in COMPRESSIONS:
        assert len(echoes(service, frame, compression=compression)) == 0


LIMITS = {
    pl.Int8: [-128, 127],
    pl.Int16: [-32768, 32767],
    pl.Int32: [-(2**31), 2**31 - 1],
    pl.Int64: [-(2**63), 2**53, 2**62],
    pl.UInt8: [0, 255],
    pl.UInt16: [0, 65535],
    pl.UInt32: [0, 2**32 - 1],
    pl.UInt64: [0, 2**53, 2**63, 2**64 - 2048],
}


@pytest.mark.parametrize("type", LIMITS, ids=str)
def test_integers_are_read_exactly(service, type):
    values = [*LIMITS[type], 100]
    assert wire.same_bits(echoes(service, series(pl.Series(values, dtype=type))), [float(v) for v in values])


@pytest.mark.parametrize("type", [np.float16, np.float32])
def test_narrow_floats_are_widened(service, type):
    close = np.array([100.1, -0.0, np.finfo(type).tiny, np.finfo(type).smallest_subnormal, np.finfo(type).max], type)
    for compression in COMPRESSIONS:
        assert wire.same_bits(echoes(service, series(close), compression=compression), close.astype(np.float64))


def odd(value, type=None):
    return pl.Series("odd", [value, None] * (N // 2), type)


ODD = {
    "null": pl.Series("odd", [None] * N),
    "boolean": odd(True),
    "int128": odd(1, pl.Int128),
    "float16": odd(1.5, pl.Float16),
    "short strings": odd("é"),
    "long strings": odd("longer than the twelve bytes that a view holds itself"),
    "binary": odd(b"\0"),
    "categorical": odd("x", pl.Categorical),
    "enum": odd("x", pl.Enum(["x", "y"])),
    "decimal": odd(decimal.Decimal("1.5"), pl.Decimal(10, 2)),
    "date": odd(datetime.date(2020, 1, 1)),
    "time": odd(datetime.time(1)),
    "datetime": odd(datetime.datetime(2020, 1, 1)),
    "datetime with zone": odd(datetime.datetime(2020, 1, 1)).dt.replace_time_zone("Europe/Berlin"),
    "duration": odd(datetime.timedelta(1)),
    "list": odd([1.0, 2.0]),
    "list of strings": odd(["a", "a string that is longer than a view"]),
    "list of categoricals": odd(["a", "b"], pl.List(pl.Categorical)),
    "array": odd([1, 2], pl.Array(pl.Int8, 2)),
    "struct": odd({"close": 1.0, "nested": {"close": "x"}}),
    "list of structs": odd([{"a": [1], "close": "x"}]),
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", ODD)
def test_a_column_of_any_type_is_passed_over(service, gbm42, name, compression):
    close = pl.Series("close", gbm42[:N])
    for columns in [close, ODD[name]], [ODD[name], close], [ODD[name], close, ODD[name].alias("odd again")]:
        for frame in pl.DataFrame(columns), pl.DataFrame(columns)[3:20], in_chunks(pl.DataFrame(columns), 5):
            for level in LEVELS:
                got = echoes(service, frame, compression=compression, compat_level=level)
                assert wire.same_bits(got, frame["close"].to_numpy())


OTHERS = {
    "int128": pl.Series([100], dtype=pl.Int128),
    "categorical": pl.Series(["100"], dtype=pl.Categorical),
    "decimal": pl.Series([decimal.Decimal("100.25")]),
    "string": pl.Series(["100"]),
    "boolean": pl.Series([True]),
    "date": pl.Series([datetime.date(2020, 1, 1)]),
    "list": pl.Series([[100.0]]),
    "struct": pl.Series([{"bid": 99.0}]),
    "null": pl.Series([None]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_series_of_another_type_is_refused_by_its_name(service, name):
    for level in LEVELS:
        p = wire.problem(service.echo(**send(series(OTHERS[name]), compat_level=level)), 422)
        assert p["field"] == "close"
        assert name != "int128" or "int128" in p["detail"]


def test_a_file_is_refused_by_saying_how_to_write_a_stream(service, gbm42):
    out = io.BytesIO()
    series(gbm42[:100]).write_ipc(out)
    assert "stream" in wire.problem(service.echo(**wire.typed(out.getvalue(), wire.ARROW)), 415)["detail"]


def test_the_answer_of_a_sweep_is_a_frame(service, gbm42, grid):
    r = service.sweep(params={"lengths": "6:200:80"}, data=gbm42.tobytes(), headers={"Accept": wire.ARROW})
    frame = read(r)
    assert frame.schema == {"pnl": pl.Float64, "trades": pl.Int64, "open": pl.Int8}
    assert wire.same_bits(frame["pnl"].to_numpy(), grid.want.pnl)
    assert frame["trades"].to_list() == grid.want.trades


def test_the_demo_series_is_a_frame(service, gbm42):
    r = service.request("GET", "/datasets/gbm42", headers={"Accept": wire.ARROW})
    assert wire.same_bits(read(r)["close"].to_numpy(), gbm42)


def test_an_answer_is_read_by_polars_and_by_pyarrow_through_it(service):
    r = service.echo(data=edges.ALL.tobytes(), headers={"Accept": wire.ARROW})
    assert wire.same_bits(read(r)["close"].to_numpy(), edges.ALL)
    table = pl.read_ipc_stream(r.content, use_pyarrow=True).to_arrow()
    assert table["close"].type == pa.float64() and wire.same_bits(table["close"].to_numpy(), edges.ALL)
