"""Tables from pandas, with the index and the metadata that it adds."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import wire

LENGTHS = {"lengths": "6,8,10"}


def send(table):
    return wire.typed(wire.stream(table), wire.ARROW)


@pytest.fixture
def filtered(gbm42):
    """A frame whose index is no range, as after a filter."""
    frame = pd.DataFrame({"close": gbm42})
    return frame[frame["close"].diff() > 0]


def test_the_index_column_may_stand_behind_close(service, filtered):
    table = pa.Table.from_pandas(filtered)
    assert table.column_names == ["close", "__index_level_0__"] and b"pandas" in table.schema.metadata
    assert wire.same_bits(wire.close_of(service.echo(**send(table))), filtered["close"])


def test_the_index_column_may_stand_before_close(service, filtered):
    table = pa.Table.from_pandas(filtered).select(["__index_level_0__", "close"])
    assert wire.same_bits(wire.close_of(service.echo(**send(table))), filtered["close"])


def test_both_orders_give_the_sweep_of_the_plain_series(service, filtered):
    want = wire.results_of(service.sweep(params=LENGTHS, data=filtered["close"].to_numpy().tobytes()))
    table = pa.Table.from_pandas(filtered)
    wire.check(service.sweep(params=LENGTHS, **send(table)), want)
    wire.check(service.sweep(params=LENGTHS, **send(table.select(["__index_level_0__", "close"]))), want)


def test_a_range_index_adds_no_column(service, gbm42, few):
    table = pa.Table.from_pandas(pd.DataFrame({"close": gbm42}))
    assert table.column_names == ["close"]
    wire.check(service.sweep(params=few.query, **send(table)), few.want)


def test_bars_with_dates_and_names_are_a_series(service, gbm42):
    n = 500
    bars = pd.DataFrame(
        {
            "symbol": pd.Categorical(["TEST"] * n),
            "open": gbm42[:n],
            "high": gbm42[:n] + 1,
            "close": gbm42[1 : n + 1],
            "volume": np.arange(n),
            "note": [None, "split"] * (n // 2),
        },
        index=pd.date_range("2020-01-01", periods=n, freq="min", tz="America/New_York", name="time"),
    )
    assert wire.same_bits(wire.close_of(service.echo(**send(pa.Table.from_pandas(bars)))), bars["close"])


def test_a_multi_index_is_passed_over(service, gbm42):
    index = pd.MultiIndex.from_product([["a", "b"], range(50)])
    frame = pd.DataFrame({"close": gbm42[:100]}, index=index)
    assert wire.same_bits(wire.close_of(service.echo(**send(pa.Table.from_pandas(frame)))), gbm42[:100])


def test_a_nan_that_pandas_makes_null_is_refused_by_its_row(service, gbm42):
    frame = pd.DataFrame({"close": gbm42[:100]})
    frame.loc[42, "close"] = np.nan
    table = pa.Table.from_pandas(frame)
    assert table["close"].null_count == 1
    wire.blames(service.sweep(params=LENGTHS, **send(table)), "close", 42)
    wire.blames(service.sweep(params=LENGTHS, **send(pa.Table.from_pandas(frame["close"].pct_change().to_frame()))), "close", 0)


def test_a_frame_of_combos_is_a_table_of_windows(service, gbm42, few):
    frame = pd.DataFrame(few.windows, columns=wire.WINDOWS, index=few.lengths)
    body = wire.stream(wire.series(gbm42)) + wire.stream(pa.Table.from_pandas(frame))
    wire.check(service.sweep(**wire.typed(body, wire.ARROW)), few.want)


def test_the_answer_is_a_frame(service, gbm42, few):
    r = service.sweep(params=few.query, **send(wire.series(gbm42)))
    frame = pa.ipc.open_stream(r.content).read_pandas()
    assert frame.dtypes.astype(str).to_dict() == {"pnl": "float64", "trades": "int64", "open": "int8"}
    assert frame["pnl"].tolist() == few.want.pnl
