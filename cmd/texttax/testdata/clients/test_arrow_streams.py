"""Bodies under the Arrow stream type that pyarrow compressed, cut or wrote otherwise."""

import io

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import wire

LENGTHS = {"lengths": "6,8,10"}


def arrow(body):
    return wire.typed(body, wire.ARROW)


@pytest.mark.parametrize("compression", ["lz4", "zstd", pa.Codec("zstd", compression_level=19)], ids=str)
@pytest.mark.parametrize("size", [None, 10_000])
def test_compressed_buffers_give_the_same_sweep(service, gbm42, few, compression, size):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    body = wire.stream(wire.series(gbm42), options, size)
    wire.check(service.sweep(params=few.query, **arrow(body)), few.want)
    body += wire.stream(wire.combos(few.windows), options)
    wire.check(service.sweep(**arrow(body)), few.want)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_buffers_that_shrink_and_those_that_do_not_are_read(service, gbm42, compression):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    for close in pa.array([100.0] * 100_000), pa.array(gbm42[:1]), pa.array([i % 256 for i in range(1000)], pa.uint8()):
        got = wire.close_of(service.echo(**arrow(wire.stream(wire.series(close), options))))
        assert wire.same_bits(got, close.to_numpy())


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_null_in_a_compressed_table_is_named(service, compression):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    close = [100.0] * 5000
    close[4321] = None
    wire.blames(service.sweep(params=LENGTHS, **arrow(wire.stream(wire.series(close), options))), "close", 4321)


@pytest.mark.parametrize("options", [{"metadata_version": pa.ipc.MetadataVersion.V4}, {"use_threads": False}, {"allow_64bit": True}], ids=str)
def test_other_options_of_the_writer_change_nothing(service, gbm42, options):
    body = wire.stream(wire.series(gbm42), pa.ipc.IpcWriteOptions(**options))
    assert wire.same_bits(wire.close_of(service.echo(**arrow(body))), gbm42)


def feather(table, **options):
    sink = io.BytesIO()
    pa.feather.write_feather(table, sink, **options)
    return sink.getvalue()


def file(table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("write", [feather, lambda t: feather(t, compression="uncompressed"), file], ids=["feather", "plain feather", "new_file"])
def test_a_file_is_refused_by_saying_how_to_write_a_stream(service, gbm42, write):
    for table in wire.series(gbm42[:3]), wire.series(gbm42):
        body = write(table)
        assert body.startswith(b"ARROW1")
        for send in service.echo, service.sweep:
            p = wire.problem(send(**arrow(body)), 415)
            assert "new_stream" in p["detail"]
    p = wire.problem(service.sweep(**arrow(wire.stream(wire.series(gbm42)) + file(wire.combos([[1] * 6])))), 415)
    assert "new_stream" in p["detail"]


def test_parquet_is_malformed(service, gbm42):
    sink = io.BytesIO()
    pa.parquet.write_table(wire.series(gbm42[:100]), sink)
    wire.problem(service.echo(**arrow(sink.getvalue())), 400)


def boundaries(body):
    """Where a stream has a message's end, so that a cut there can't be seen."""
    source = pa.BufferReader(body)
    ends = set()
    while True:
        try:
            pa.ipc.read_message(source)
        except EOFError:
            return ends
        ends.add(source.tell())


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_stream_cut_in_a_message_is_malformed(service, gbm42, compression):
    table = pa.table({"name": ["a", "b"] * 20, "close": gbm42[:40]})
    body = wire.stream(table, pa.ipc.IpcWriteOptions(compression=compression), max_chunksize=20)
    ends = boundaries(body)
    assert len(ends) == 3  # a schema and two batches; the end of the stream is no message
    for cut in set(range(1, len(body))) - ends:
        r = service.echo(**arrow(body[:cut]))
        assert r.status_code == 400, f"cut at {cut} of {len(body)}: {r.status_code} {r.text[:200]}"
        wire.problem(r, 400)
    assert wire.same_bits(wire.close_of(service.echo(**arrow(body))), gbm42[:40])


def test_a_second_stream_that_is_cut_is_malformed(service, gbm42, few):
    first, second = wire.stream(wire.series(gbm42[:100])), wire.stream(wire.combos(few.windows))
    for cut in 1, 4, 8, 100, len(second) // 2, len(second) - 9, len(second) - 4:
        wire.problem(service.sweep(**arrow(first + second[:cut])), 400)


def test_the_demo_series_cut_in_half_is_malformed(service, gbm42):
    body = wire.stream(wire.series(gbm42))
    for send in service.echo, service.sweep:
        wire.problem(send(**arrow(body[: len(body) // 2])), 400)


def test_a_stream_needs_no_end_marker(service, gbm42):
    body = wire.stream(wire.series(gbm42[:100]))
    assert body.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    assert wire.same_bits(wire.close_of(service.echo(**arrow(body[:-8]))), gbm42[:100])


def test_two_series_are_one_too_many(service, gbm42):
    body = wire.stream(wire.series(gbm42[:100]))
    r = service.echo(**arrow(body + body))
    assert r.status_code in (400, 422), r.text[:200]
    assert "close" in wire.problem(r, r.status_code)["detail"]


def test_the_answer_of_a_sweep_has_the_promised_schema(service, gbm42, few):
    body = wire.stream(wire.series(gbm42)) + wire.stream(wire.combos(few.windows))
    reader = pa.ipc.open_stream(service.sweep(**arrow(body)).content)
    assert reader.schema.names == ["pnl", "trades", "open"]
    assert reader.schema.types == [pa.float64(), pa.int64(), pa.int8()]
    table = reader.read_all()
    table.validate(full=True)
    assert table["pnl"].num_chunks == 1 and table.num_rows == 5
    assert [c.null_count for c in table.columns] == [0, 0, 0]
    assert table["pnl"].to_pylist() == few.want.pnl and table["trades"].to_pylist() == few.want.trades


def test_the_answer_of_an_echo_has_the_promised_schema(service, gbm42):
    r = service.echo(data=gbm42.tobytes(), headers={"Accept": wire.ARROW})
    reader = pa.ipc.open_stream(r.content)
    assert reader.schema.names == ["close"] and reader.schema.types == [pa.float64()]
    table = reader.read_all()
    table.validate(full=True)
    assert wire.same_bits(table["close"].to_numpy(), gbm42)


def test_an_answer_can_be_sent_back_as_a_request(service, gbm42):
    first = service.echo(**arrow(wire.stream(wire.series(gbm42))))
    assert wire.same_bits(wire.close_of(service.echo(**arrow(first.content))), gbm42)


def test_an_answer_is_read_while_it_arrives(service, gbm42):
    with service.echo(stream=True, headers={"Accept": wire.ARROW}, data=gbm42.tobytes()) as r:
        assert wire.same_bits(pa.ipc.open_stream(r.raw).read_all()["close"].to_numpy(), gbm42)
