"""Writes the golden streams of the Arrow codec's tests, with pyarrow, and
manifest.json, which says what each of them holds.

    python generate.py

What a stream holds is taken from numpy and from Python's integers, never from
the code under test. It needs pyarrow 18 or later, numpy and pandas.
"""

import decimal
import hashlib
import io
import json
import pathlib

import numpy as np
import pandas as pd
import pyarrow as pa

HERE = pathlib.Path(__file__).parent
WINDOWS = ["hma_half", "hma_full", "hma_smooth", "hma3_third", "hma3_half", "hma3_full"]
SHOWN = 64  # series up to this length are spelled out in the manifest

manifest = []
rng = np.random.default_rng(7)


def golden(name, body, close=None, params=None, null=None, error=None, results=None):
    """Writes a body and notes what is expected of it.

    null is the row of the first element of close that is no price, error a
    triple of kind, field and index.
    """
    (HERE / (name + ".arrows")).write_bytes(body)
    entry = {"name": name}
    if close is not None:
        bits = np.asarray(close, dtype="<f8").tobytes()
        entry["rows"] = len(close)
        entry["close_sha256"] = hashlib.sha256(bits).hexdigest()
        if len(close) <= SHOWN:
            entry["close"] = [format(v, "016x") for v in np.frombuffer(bits, "<u8")]
    if params is not None:
        entry["params"] = [[int(v) for v in combo] for combo in params]
    if null is not None:
        entry["invalid"] = null
    if error is not None:
        entry["error"] = dict(zip(("kind", "field", "index"), error))
    if results is not None:
        pnl, trades, side = results
        entry["results"] = {
            "pnl": [format(v, "016x") for v in np.asarray(pnl, "<f8").view("<u8")],
            "trades": [int(v) for v in trades],
            "open": [int(v) for v in side],
        }
    manifest.append(entry)


def stream(table, rows=None, end=True, **options):
    """The stream of a table, or of the batches of a list."""
    batches = table if isinstance(table, list) else table.to_batches(rows)
    schema = batches[0].schema if isinstance(table, list) else table.schema
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    body = sink.getvalue()
    return body if end else body[:-8]


def closes(values, type=None):
    return pa.table({"close": pa.array(values, type=type)})


def walk(n):
    return 100 * np.exp(np.cumsum(rng.normal(0, 0.01, n)))


def combos(n):
    return rng.integers(1, 100, (n, 6))


def windows(values, type=pa.int64()):
    return pa.table({w: pa.array([row[i] for row in values], type=type) for i, w in enumerate(WINDOWS)})


# One table, plain.

plain = walk(20)
small = combos(3)
golden("plain", stream(closes(plain)), plain)
golden("one_bar", stream(closes([101.25])), [101.25])
golden("empty_batch", stream([pa.record_batch({"close": pa.array([], pa.float64())})]), [])
golden("no_batches", stream(closes([], pa.float64()).schema.empty_table(), rows=1), [])
golden("no_end", stream(closes(plain), end=False), plain)
odd = np.array(["7ff8000000000001", "fff0000000000123", "8000000000000000", "0000000000000001", "7ff0000000000000"])
odd = np.array([int(b, 16) for b in odd], "<u8").view("<f8")
golden("odd_bits", stream(closes(odd)), odd)

# Two streams.

golden("series_combos", stream(closes(plain)) + stream(windows(small)), plain, small)
golden("combos_series", stream(windows(small)) + stream(closes(plain)), plain, small)
golden("series_combos_no_ends", stream(closes(plain), end=False) + stream(windows(small), end=False), plain, small)
golden("three_streams", stream(closes(plain)) + stream(windows(small)) + stream(closes(plain)), error=("malformed", "", -1))
golden("two_series", stream(closes(plain)) * 2, error=("malformed", "close", -1))
golden("two_combos", stream(windows(small)) * 2, error=("malformed", "params", -1))
golden("trailing_zero_word", stream(closes(plain)) + bytes(8), error=("malformed", "", -1))
golden("trailing_byte", stream(closes(plain)) + b"\n", error=("malformed", "", -1))
golden("end_twice", stream(closes(plain)) + b"\xff\xff\xff\xff\0\0\0\0", error=("malformed", "", -1))

# Batches, chunks and slices.

golden("batches", stream(closes(plain), rows=7), plain)
three = [pa.record_batch({"close": part}) for part in (plain[:12], plain[:0], plain[12:])]
golden("batches_with_empty", stream(three), plain)
golden("batches_first_empty", stream([three[1], three[0], three[2]]), plain)
golden("chunked", stream(pa.table({"close": pa.chunked_array([plain[:3], plain[3:4], plain[4:]])})), plain)
golden("sliced", stream(closes(plain).slice(3)), plain[3:])
golden("sliced_both_ends", stream(closes(plain).slice(3, 9)), plain[3:12])
masked = [None, None, None, *plain[3:]]
golden("sliced_past_nulls", stream(closes(masked, pa.float64()).slice(3)), plain[3:])
holed = [*plain[:5], None, *plain[6:11], None, *plain[12:]]
filled = np.array([np.nan if v is None else v for v in holed])
golden("sliced_with_nulls", stream(closes(holed, pa.float64()).slice(3)), filled[3:], null=2)
golden("sliced_combos", stream(windows(small.tolist()).slice(1)), params=small[1:])

# Types.

for type in ("float16", "float32"):
    narrow = plain.astype(type)
    golden(type, stream(closes(narrow)), narrow.astype("f8"))
half = np.array([0x0001, 0x03FF, 0x8001, 0x8000, 0x7C00, 0xFC00, 0x7BFF, 0x3C01], "<u2").view("<f2")
golden("float16_edges", stream(closes(half)), half.astype("f8"))
for type in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    info = np.iinfo(type)
    whole = np.array([1, 100, info.max, info.min] if info.bits < 64 else [1, 2**53, 2**54 + 4, info.min], type)
    golden(type, stream(closes(whole)), whole.astype("f8"))
    golden("windows_" + type, stream(windows(small.tolist(), type)), params=small)
golden("int64_inexact", stream(closes([1, 2, 3, 4, 2**53 + 1, 2**53 + 3], pa.int64())), [1, 2, 3, 4, np.nan, np.nan], null=4)
golden("int64_most", stream(closes([1, 2**63 - 1], pa.int64())), [1, np.nan], null=1)
golden("uint64_inexact", stream(closes([2**63, 2**63 + 1], pa.uint64())), [2.0**63, np.nan], null=1)
golden("uint64_most", stream(closes([5, 2**64 - 1], pa.uint64())), [5, np.nan], null=1)
golden("inexact_in_third_batch", stream(closes([1] * 9 + [2**53 + 1], pa.int64()), rows=4), [1] * 9 + [np.nan], null=9)
hidden = pa.Array.from_buffers(
    pa.int64(), 3, [pa.py_buffer(b"\x06"), pa.py_buffer(np.array([2**53 + 1, 2, 2**53 + 1]).tobytes())])
golden("inexact_under_null", stream(pa.table({"close": hidden})), [np.nan, 2, np.nan], null=0)

# Nulls.

golden("nulls", stream(closes(holed, pa.float64())), filled, null=5)
golden("nulls_in_batches", stream(closes(holed, pa.float64()), rows=3), filled, null=5)
golden("nulls_int32", stream(closes([None, 2, 3], pa.int32())), [np.nan, 2, 3], null=0)
golden("all_null", stream(closes([None] * 17, pa.float64())), [np.nan] * 17, null=0)
golden("null_before_inexact", stream(closes([1, None, 2**53 + 1], pa.int64())), [1, np.nan, np.nan], null=1)

# Compression. The longer ones take several blocks of LZ4, each reaching back
# into the one before.

long = np.tile(np.round(walk(500), 2), 40)
for codec in ("lz4", "zstd"):
    golden(codec, stream(closes(long), compression=codec), long)
    golden(codec + "_batches", stream(closes(long[:700]), rows=300, compression=codec), long[:700])
    golden(codec + "_constant", stream(closes(np.full(30000, 7.5)), compression=codec), np.full(30000, 7.5))
    golden(codec + "_random", stream(closes(plain), compression=codec), plain)
    golden(codec + "_nulls", stream(closes(holed * 20, pa.float64()), compression=codec), np.tile(filled, 20), null=5)
    golden(codec + "_int16", stream(closes(np.arange(300, dtype="i2")), compression=codec), np.arange(300))
    golden(codec + "_empty", stream([pa.record_batch({"close": pa.array([], pa.float64())})], compression=codec), [])
    both = stream(windows(small.tolist()), compression=codec) + stream(closes(long[:200]), compression=codec)
    golden(codec + "_both", both, long[:200], small)
golden("zstd_19", stream(closes(long), compression=pa.Codec("zstd", 19)), long)

# pandas.

frame = pd.DataFrame({"open": plain, "close": plain + 1}, index=pd.date_range("2020", periods=20, freq="h"))
table = pa.Table.from_pandas(frame)
golden("pandas", stream(table), plain + 1)
golden("pandas_index_first", stream(table.select(["__index_level_0__", "close", "open"])), plain + 1)
unnamed = pa.Table.from_pandas(pd.DataFrame({"close": plain}, index=list("abcdefghijklmnopqrst")))
golden("pandas_strings_index", stream(unnamed), plain)
golden("pandas_strings_index_first", stream(unnamed.select(["__index_level_0__", "close"])), plain)

# Columns of every type beside close.

text = ["", "a text that is longer than the twelve bytes of a view", None, "x"] * 5
lists = [[1, 2], [], None, [3]] * 5


class Money(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.float64(), "example.money")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def union(dense):
    ints, words = pa.array([1, 2], pa.int32()), pa.array(["u", "v"])
    if dense:
        return pa.UnionArray.from_dense(
            pa.array([0, 1, 0, 1] * 5, pa.int8()), pa.array([0, 0, 1, 1] * 5, pa.int32()), [ints, words])
    ints, words = pa.array(list(range(20)), pa.int32()), pa.array(["u"] * 20)
    return pa.UnionArray.from_sparse(pa.array([0, 1] * 10, pa.int8()), [ints, words])


others = {
    "null": pa.nulls(20),
    "bool": pa.array([True, None] * 10),
    "binary": pa.array(text).cast(pa.binary()),
    "utf8": pa.array(text),
    "large_binary": pa.array(text).cast(pa.large_binary()),
    "large_utf8": pa.array(text, pa.large_string()),
    "utf8_view": pa.array(text, pa.string_view()),
    "binary_view": pa.array([t and t.encode() for t in text], pa.binary_view()),
    "decimal128": pa.array([decimal.Decimal("1.25")] * 20),
    "decimal256": pa.array([decimal.Decimal("1.25")] * 20, pa.decimal256(50, 2)),
    "date32": pa.array([1] * 20, pa.date32()),
    "date64": pa.array([1] * 20, pa.date64()),
    "time32": pa.array([1] * 20, pa.time32("s")),
    "time64": pa.array([1] * 20, pa.time64("us")),
    "timestamp": pa.array([1] * 20, pa.timestamp("ns", "Europe/Vienna")),
    "duration": pa.array([1] * 20, pa.duration("ms")),
    "interval": pa.array([(1, 2, 3)] * 20, pa.month_day_nano_interval()),
    "fixed_binary": pa.array([b"abc", None] * 10, pa.binary(3)),
    "list": pa.array(lists),
    "large_list": pa.array(lists, pa.large_list(pa.int16())),
    "list_view": pa.array(lists, pa.list_view(pa.int16())),
    "large_list_view": pa.array(lists, pa.large_list_view(pa.int16())),
    "fixed_list": pa.array([[1.5, 2.5], None] * 10, pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"close": 1, "s": "t"}, None] * 10),
    "map": pa.array([[("k", 1)], None] * 10, pa.map_(pa.utf8(), pa.int64())),
    "sparse_union": union(False),
    "dense_union": union(True),
    "run_end": pa.RunEndEncodedArray.from_arrays(pa.array([8, 20], pa.int32()), pa.array([1.5, 2.5])),
    "dictionary": pa.array(text).dictionary_encode(),
    "list_of_struct_of_dictionary": pa.ListArray.from_arrays(
        pa.array([0] + [20] * 20, pa.int32()),
        pa.StructArray.from_arrays([pa.array(text).dictionary_encode(), pa.array(text, pa.string_view())], ["d", "v"])),
    "extension": pa.ExtensionArray.from_storage(Money(), pa.array(plain)),
}
before = pa.table({**others, "close": plain})
after = pa.table({"close": plain, **others})
golden("others_before", stream(before), plain)
golden("others_after", stream(after), plain)
golden("others_batches", stream(before, rows=6), plain)
golden("others_zstd", stream(before, compression="zstd"), plain)
golden("others_v4", stream(before, metadata_version=pa.ipc.MetadataVersion.V4), plain)
for name in others:
    golden("beside_" + name, stream(pa.table({name: others[name], "close": plain})), plain)
words = [pa.record_batch({"d": pa.array(d).dictionary_encode(), "close": c})
         for d, c in ((["a", "b"], plain[:2]), (["a", "b", "c"], plain[2:5]), (["z"], plain[5:6]))]
golden("dictionary_deltas", stream(words, emit_dictionary_deltas=True), plain[:6])

# Windows.

shuffled = windows(small.tolist()).select([WINDOWS[i] for i in (3, 0, 5, 1, 4, 2)])
golden("windows_shuffled", stream(shuffled), params=small)
golden("windows_float64", stream(windows(small.tolist(), pa.float64())), params=small)
golden("windows_float32", stream(windows(small.tolist(), pa.float32())), params=small)
golden("windows_float16", stream(windows(small.astype("f2"), pa.float16())), params=small)
golden("windows_batches", stream(windows(small.tolist()), rows=2), params=small)
golden("windows_empty", stream(windows([])), params=[])
most = [[2**63 - 1, 1, -1, -(2**63), 0, 3]]
golden("windows_extreme", stream(windows(most)), params=most)


def with_window(name, values, type):
    table = windows(small.tolist())
    return table.set_column(WINDOWS.index(name), name, pa.array(values, type))


for v, name in ((10.5, "10_5"), (float("nan"), "nan"), (float("inf"), "inf"), (2.0**63, "2_63")):
    golden("windows_float_" + name, stream(with_window("hma_full", [10.0, v, v], pa.float64())),
           error=("invalid", "params.hma_full", 1))
golden("windows_uint64_2_63", stream(with_window("hma3_full", [1, 2, 2**63], pa.uint64())),
       error=("invalid", "params.hma3_full", 2))
golden("windows_null", stream(with_window("hma_half", [1, 2, None], pa.int64())), error=("invalid", "params.hma_half", 2))
golden("windows_null_in_second_batch", stream(with_window("hma_half", [1, 2, None], pa.int64()), rows=2),
       error=("invalid", "params.hma_half", 2))
two = with_window("hma_half", [1, 2, None], pa.int64()).set_column(4, "hma3_half", pa.array([1, 2.5, 3]))
golden("windows_two_faults", stream(two), error=("invalid", "params.hma3_half", 1))
golden("windows_string", stream(with_window("hma_half", ["1", "2", "3"], pa.utf8())), error=("invalid", "params.hma_half", -1))
golden("windows_dictionary",
       stream(windows(small.tolist()).set_column(1, "hma_full", pa.array([1, 2, 3]).dictionary_encode())),
       error=("invalid", "params.hma_full", -1))
golden("windows_some", stream(windows(small.tolist()).drop_columns(["hma_full", "hma3_full"])), error=("invalid", "params", -1))
golden("windows_twice", stream(windows(small.tolist()).append_column("hma_full", pa.array([1, 2, 3]))),
       error=("malformed", "params.hma_full", -1))

# Tables that are no request.

golden("close_and_windows", stream(windows(small.tolist()).append_column("close", pa.array([1.0, 2, 3]))),
       error=("invalid", "", -1))
golden("close_twice", stream(pa.table([plain, plain], names=["close", "close"])), error=("malformed", "close", -1))
golden("close_in_capitals", stream(pa.table({"Close": plain, "\u00a3 \n" * 99: plain})), error=("invalid", "", -1))
golden("no_columns", stream(pa.table({})), error=("invalid", "", -1))
bad = {
    "dictionary": pa.array(plain).dictionary_encode(),
    "list": pa.array([[1.0]]),
    "decimal": pa.array([decimal.Decimal("1.25")]),
    "utf8": pa.array(["100"]),
    "struct": pa.array([{"close": 1.0}]),
    "timestamp": pa.array([1], pa.timestamp("s")),
    "bool": pa.array([True]),
    "null": pa.nulls(3),
    "run_end": others["run_end"],
    "duration_extension": pa.array([1], pa.duration("s")),
}
for name, column in bad.items():
    golden("close_" + name, stream(pa.table({"close": column})), error=("invalid", "close", -1))
golden("close_extension", stream(pa.table({"close": others["extension"]})), plain)
sink = io.BytesIO()
with pa.ipc.new_file(sink, closes(plain).schema) as writer:
    writer.write_table(closes(plain))
golden("file", sink.getvalue(), error=("unsupported", "", -1))
golden("legacy", stream(closes(plain), use_legacy_format=True), error=("malformed", "", -1))
golden("metadata_v4", stream(closes(plain), metadata_version=pa.ipc.MetadataVersion.V4), plain)

# Answers.

pnl, trades, side = walk(5) - 100, [0, 1, 57029, 2**62, 3], [1, 0, -1, 0, 1]
answer = pa.table({"pnl": pnl, "trades": pa.array(trades, pa.int64()), "open": pa.array(side, pa.int8())})
golden("answer", stream(answer), results=(pnl, trades, side))
golden("answer_batches", stream(answer, rows=2), results=(pnl, trades, side))
golden("answer_zstd", stream(answer.append_column("z", pa.array(["x"] * 5)), compression="zstd"), results=(pnl, trades, side))
golden("answer_empty", stream(answer.slice(0, 0)), results=([], [], []))

# No answers, and no requests either.

nulls = answer.set_column(0, "pnl", pa.array([1.0, None, 3, 4, 5]))
golden("no_answer_nulls", stream(nulls, rows=3), error=("invalid", "", -1))
golden("no_answer_int32", stream(answer.set_column(1, "trades", pa.array([1] * 5, pa.int32()))), error=("invalid", "", -1))
golden("no_answer_without_open", stream(answer.drop_columns(["open"])), error=("invalid", "", -1))
golden("no_answer_twice", stream(answer.append_column("open", answer["open"])), error=("invalid", "", -1))

(HERE / "manifest.json").write_text("[\n" + ",\n".join(json.dumps(e) for e in manifest) + "\n]\n")
