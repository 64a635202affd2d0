// apache-arrow: tables of its writer, and answers in its reader.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  Bool, CompressionType, DateMillisecond, Dictionary, Field, FixedSizeList, Float16, Float32, Float64, Int16, Int32, Int64, Int8, List, Null, RecordBatchReader,
  RecordBatchStreamWriter, Struct, Table, TimestampMillisecond, Uint16, Uint32, Uint64, Uint8, Utf8, Vector, compressionRegistry, makeVector, tableFromArrays,
  tableFromIPC, tableFromJSON, tableToIPC, vectorFromArray,
} from 'apache-arrow';
import lz4 from 'lz4js';
import { ARROW, OCTET, all, bytes, checkGolden, finite, floats, gbm42, get, golden, post, refused, same, sameMemory, windowNames } from './service.js';

const series = (close) => new Table({ close: close instanceof Vector ? close : makeVector(close) });
const echo = (table) => post('/echo', tableToIPC(table, 'stream'), ARROW);

/** The close of an answer, as one typed array. */
async function closeOf(response) {
  const table = tableFromIPC(await bytes(response));
  assert.deepEqual(table.schema.fields.map(String), ['close: Float64']);
  assert.equal(table.getChild('close').nullCount, 0);
  return table.getChild('close').toArray();
}

test('every bit of a typed array comes back', async () => {
  for (const close of [all, gbm42, new Float64Array(0)]) sameMemory(await closeOf(await echo(series(close))), close);
  sameMemory(floats(await bytes(await post('/echo', tableToIPC(series(all)), ARROW, OCTET))), all);
  sameMemory(await closeOf(await post('/echo', all, undefined, ARROW)), all);
});

test('numbers from plain arrays and from JSON are read', async () => {
  const close = Array.from(finite);
  same(await closeOf(await echo(tableFromArrays({ close: Float64Array.from(close) }))), close);
  same(await closeOf(await echo(series(vectorFromArray(close, new Float64())))), close);
  same(await closeOf(await echo(tableFromJSON(close.map((v, i) => ({ i, close: v }))))), close);
});

test('batches, slices and a stream writer give the whole series', async () => {
  const parts = [finite.slice(0, 5000), finite.slice(5000, 5000), finite.slice(5000)];
  const chunked = new Table({ close: new Vector(parts.map((p) => makeVector(p).data[0])) });
  same(await closeOf(await echo(chunked)), finite);
  same(await closeOf(await echo(chunked.slice(3, 7000))), finite.slice(3, 7000));
  same(await closeOf(await echo(series(finite).slice(5))), finite.slice(5));
  const writer = new RecordBatchStreamWriter();
  for (const batch of chunked.batches) writer.write(batch);
  same(await closeOf(await post('/echo', await writer.finish().toUint8Array(), ARROW)), finite);
});

test('a null is named by its row, and one outside the slice is not in it', async () => {
  const close = Array.from({ length: 100 }, (_, i) => (i === 40 || i === 77 ? null : 100 + i));
  const table = series(vectorFromArray(close, new Float64()));
  assert.equal(table.getChild('close').nullCount, 2);
  await refused(await echo(table), 422, 'close', 40);
  await refused(await echo(table.slice(41)), 422, 'close', 36);
  await refused(await post('/sweep?lengths=6', tableToIPC(table.slice(13)), ARROW), 422, 'close', 27);
  for (const [from, to] of [[0, 40], [41, 77], [78, 100], [43, 76]])
    same(await closeOf(await echo(table.slice(from, to))), close.slice(from, to));
});

test('numbers of every type are read exactly', async () => {
  for (const [type, values] of [
    [new Float16(), [1.5, -0, 65504, 2 ** -24]],
    [new Float32(), [Math.fround(0.1), -0, Math.fround(3.4e38), 2 ** -149]],
    [new Int8(), [-128, 127]], [new Int16(), [-32768, 32767]], [new Int32(), [-2147483648, 2147483647]],
    [new Int64(), [-(2n ** 63n), 2n ** 53n]],
    [new Uint8(), [0, 255]], [new Uint16(), [0, 65535]], [new Uint32(), [0, 4294967295]],
    [new Uint64(), [0n, 2n ** 63n, 2n ** 64n - 2048n]],
  ])
    same(await closeOf(await echo(series(vectorFromArray(values, type)))), values.map(Number));
  for (const [type, v] of [[new Int64(), 2n ** 53n + 1n], [new Uint64(), 2n ** 64n - 1n]])
    await refused(await echo(series(vectorFromArray([100n, v], type))), 422, 'close', 1);
});

const N = 24;
const every = (value, type) => vectorFromArray(Array.from({ length: N }, (_, i) => (i % 2 ? null : value)), type);
const beside = {
  dictionary: () => tableFromArrays({ odd: Array.from({ length: N }, (_, i) => `word ${i % 3}`) }).getChild('odd'),
  utf8: () => every('é', new Utf8()),
  bool: () => every(true, new Bool()),
  null: () => every(null, new Null()),
  date: () => every(new Date(0), new DateMillisecond()),
  timestamp: () => every(5, new TimestampMillisecond()),
  list: () => every([1, 2], new List(new Field('item', new Float64()))),
  'fixed-size list': () => every([1, 2], new FixedSizeList(2, new Field('item', new Int8()))),
  struct: () => every({ close: 1 }, new Struct([new Field('close', new Float64())])),
  'list of dictionaries': () => every(['a', 'b'], new List(new Field('item', new Dictionary(new Utf8(), new Int32())))),
};

for (const [name, make] of Object.entries(beside))
  test(`a column of ${name} is passed over`, async () => {
    const close = makeVector(gbm42.slice(0, N));
    const odd = make();
    for (const table of [new Table({ odd, close }), new Table({ close, odd }), new Table({ odd, close }).slice(3, 17)])
      sameMemory(await closeOf(await echo(table)), table.getChild('close').toArray().slice());
  });

test('a series of another type is refused by its name', async () => {
  for (const close of [vectorFromArray(['100', '101']), vectorFromArray(['100'], new Utf8()), every(true, new Bool()), every([1], new List(new Field('item', new Float64())))])
    await refused(await echo(series(close)), 422, 'close');
});

test('a sweep gives the golden grid', async () => {
  const columns = Object.fromEntries(windowNames.map((name, w) => [name, golden.map((combo) => combo.windows[w])]));
  for (const make of [(c) => BigInt64Array.from(c.map(BigInt)), (c) => Int32Array.from(c), (c) => Float64Array.from(c)]) {
    const combos = tableFromArrays(Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, make(c)])));
    const body = Buffer.concat([tableToIPC(series(gbm42)), tableToIPC(combos)]);
    const answer = tableFromIPC(await bytes(await post('/sweep', body, ARROW)));
    assert.deepEqual(answer.schema.fields.map(String), ['pnl: Float64', 'trades: Int64', 'open: Int8']);
    checkGolden(Object.fromEntries(['pnl', 'trades', 'open'].map((name) => [name, answer.getChild(name).toArray()])));
  }
});

test('an answer is read while it arrives', async () => {
  sameMemory((await tableFromIPC(get('/datasets/gbm42', ARROW))).getChild('close').toArray(), gbm42);
  const reader = await RecordBatchReader.from((await post('/sweep?lengths=6:200:80', gbm42, undefined, ARROW)).body);
  const batches = [];
  for await (const batch of reader) batches.push(batch);
  const answer = new Table(batches);
  checkGolden({ pnl: answer.getChild('pnl'), trades: answer.getChild('trades'), open: answer.getChild('open') });
});

test('a file is refused by saying that a stream is wanted', async () => {
  assert.match((await refused(await post('/echo', tableToIPC(series(finite), 'file'), ARROW), 415)).detail, /stream/);
});

// apache-arrow 21.2 writes the length of a buffer after its compression where
// the format has that before it. pyarrow and polars can't read that either. It
// must be refused, and what it leaves as it was must be read.
test('buffers that it compresses are refused as malformed, and those that do not shrink are read', async () => {
  compressionRegistry.set(CompressionType.LZ4_FRAME, { encode: (b) => lz4.compress(b), decode: (b) => lz4.decompress(b) });
  const packed = (close) => post('/echo', tableToIPC(series(close), 'stream', CompressionType.LZ4_FRAME), ARROW);
  assert.match((await refused(await packed(new Float64Array(1000).fill(100.5)), 400)).detail, /length/);
  same(await closeOf(await packed(gbm42.slice(0, 3))), gbm42.slice(0, 3));
});
