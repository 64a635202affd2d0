// Float64Array as a body, which fetch sends without a Content-Type.

import assert from 'node:assert/strict';
import test from 'node:test';
import { OCTET, all, bytes, checkGolden, floats, gbm42, get, golden, post, refused, sameMemory } from './service.js';

/** The published frame. */
function frame(opcode, close, windows) {
  const body = new Uint8Array(9 + 8 * close.length + 48 * windows.length);
  const view = new DataView(body.buffer);
  view.setUint8(0, opcode);
  view.setUint32(1, close.length, true);
  view.setUint32(5, windows.length, true);
  body.set(new Uint8Array(close.buffer, close.byteOffset, close.byteLength), 9);
  windows.flat().forEach((w, i) => view.setBigInt64(9 + 8 * close.length + 8 * i, BigInt(w), true));
  return body;
}

test('every bit of a typed array comes back', async () => {
  sameMemory(floats(await bytes(await post('/echo', all))), all);
  sameMemory(floats(await bytes(await post('/echo', all.subarray(3, 1000)))), all.slice(3, 1000));
  sameMemory(floats(await bytes(await post('/echo', frame(1, all, []), OCTET))), all);
});

test('a sweep gives the golden grid', async () => {
  for (const r of [
    await post('/sweep?lengths=6:200:80', gbm42),
    await post('/sweep', frame(0, gbm42, golden.map((combo) => combo.windows)), OCTET),
  ]) {
    const body = await bytes(r);
    const half = body.length / 2;
    checkGolden({ pnl: floats(body.subarray(0, half)), trades: new BigInt64Array(body.slice(half).buffer) });
  }
});

test('the demo series is the published one', async () => {
  sameMemory(floats(await bytes(await get('/datasets/gbm42', OCTET))), gbm42);
});

test('an array of Float32Array is no series by its length, and a NaN is refused by its index', async () => {
  await refused(await post('/echo', new Float32Array(101)), 400);
  await refused(await post('/sweep?lengths=6', Float64Array.of(1, 2, NaN)), 422, 'close', 2);
});

test('answers of many requests at once are each their own', async () => {
  await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const close = all.slice(i, 2000 + 7 * i);
      sameMemory(floats(await bytes(await post('/echo', close))), close);
    }),
  );
  assert.equal((await get('/healthz', '*/*')).status, 200);
});
