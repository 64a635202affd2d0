// @msgpack/msgpack: maps with arrays of numbers, or with bin.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Decoder, Encoder, decode, encode } from '@msgpack/msgpack';
import { MSGPACK, MSGPACK_BIN, OCTET, all, bits, bytes, checkGolden, finite, floats, gbm42, get, golden, post, refused, same, sameMemory } from './service.js';

/** A typed array as the bytes that bin holds. */
const raw = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

test('every float of an array is read', async () => {
  // By default the whole numbers go as the smallest integers, and with them -0
  // as 0: its sign is lost before it is sent.
  assert.deepEqual(encode([-0]), Uint8Array.of(0x91, 0x00));
  const close = Array.from(finite.filter((v) => !Object.is(v, -0)));
  same(floats(await bytes(await post('/echo', encode({ close }), MSGPACK, OCTET))), close);
  const body = new Encoder({ forceIntegerToFloat: true }).encode({ close: Array.from(finite) });
  same(floats(await bytes(await post('/echo', body, MSGPACK, OCTET))), finite);
});

test('every float of an answer is decoded', async () => {
  same(decode(await bytes(await post('/echo', finite, undefined, MSGPACK))).close, finite);
});

test('what comes back of an array of floats is the very bytes', async () => {
  const body = new Encoder({ forceIntegerToFloat: true }).encode({ close: Array.from(finite) });
  assert.deepEqual(await bytes(await post('/echo', body, MSGPACK)), body);
});

test('every bit of bin comes back', async () => {
  const body = encode({ close: raw(all) });
  const answer = await bytes(await post('/echo', body, MSGPACK));
  assert.deepEqual(answer, body);
  sameMemory(floats(decode(answer).close), all);
  sameMemory(floats(decode(await bytes(await post('/echo', all, undefined, MSGPACK_BIN))).close), all);
  sameMemory(floats(await bytes(await post('/echo', body, MSGPACK, OCTET))), all);
});

test('whole numbers go as the smallest integers and are read as the floats that they are', async () => {
  const close = [100, 100.5, 255, 70000, 1099511627776, -1, -33, -129, -32769, -2147483649, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER];
  same(decode(await bytes(await post('/echo', encode({ close }), MSGPACK))).close, close);
});

test('BigInt is exact or refused', async () => {
  const bigs = new Encoder({ useBigInt64: true });
  const exact = [2n ** 53n, 2n ** 62n, 2n ** 63n, -(2n ** 63n)];
  same(decode(await bytes(await post('/echo', bigs.encode({ close: exact }), MSGPACK))).close, exact.map(Number));
  for (const v of [2n ** 53n + 1n, 2n ** 63n - 1n, 2n ** 63n + 1n, 2n ** 64n - 1n, -(2n ** 53n) - 1n])
    await refused(await post('/echo', bigs.encode({ close: [100n, v] }), MSGPACK), 422, 'close', 1);
});

test('single floats are widened', async () => {
  const narrow = Float32Array.from(finite.filter((v) => Math.abs(v) < 3e38));
  const body = new Encoder({ forceFloat32: true, forceIntegerToFloat: true }).encode({ close: Array.from(narrow) });
  same(floats(await bytes(await post('/echo', body, MSGPACK, OCTET))), Float64Array.from(narrow));
});

test('nil, undefined and text are refused by their index', async () => {
  for (const v of [null, undefined, '101', true])
    await refused(await post('/echo', encode({ close: [100, v, 101] }), MSGPACK), 422, 'close', 1);
  await refused(await post('/sweep?lengths=6', encode({ close: [100, NaN] }), MSGPACK), 422, 'close', 1);
});

test('a sweep gives the golden grid', async () => {
  const windows = golden.map((combo) => combo.windows);
  const packed = BigInt64Array.from(windows.flat().map(BigInt));
  for (const body of [
    { close: Array.from(gbm42), params: windows },
    { close: raw(gbm42), params: windows },
    { close: raw(gbm42), params: raw(packed), fee: 0.0009 },
    { dataset: 'gbm42', lengths: golden.map((combo) => combo.length) },
  ]) {
    checkGolden(decode(await bytes(await post('/sweep', encode(body), MSGPACK))));
    const answer = new Decoder({ useBigInt64: true }).decode(await bytes(await post('/sweep', encode(body), MSGPACK, MSGPACK_BIN)));
    checkGolden({ pnl: floats(answer.pnl), trades: new BigInt64Array(answer.trades.slice().buffer), open: new Int8Array(answer.open) });
  }
});

test('the demo series is decoded', async () => {
  assert.deepEqual(bits(decode(await bytes(await get('/datasets/gbm42', MSGPACK))).close), bits(gbm42));
});
