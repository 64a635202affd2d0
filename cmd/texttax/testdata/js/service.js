// A texttax server, asked through fetch. It is the one at $TEXTTAX_URL,
// started with its default flags. By hand:
//
//     texttax serve
//     cd cmd/texttax/testdata/js && npm ci
//     TEXTTAX_URL=http://127.0.0.1:8080 node --test

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const url = process.env.TEXTTAX_URL;
if (!url) throw new Error('set TEXTTAX_URL to the address of a texttax server, such as http://127.0.0.1:8080');

export const JSON_STD = 'application/json; codec=std';
export const JSON_TYPE = 'application/json';
export const MSGPACK = 'application/vnd.msgpack';
export const MSGPACK_BIN = 'application/vnd.msgpack; numbers=bin';
export const ARROW = 'application/vnd.apache.arrow.stream';
export const OCTET = 'application/octet-stream';

const kernel = new URL('../../../../kernel/', import.meta.url);

/** The demo series, as it was published. */
export const gbm42 = floats(readFileSync(new URL('gbm42/close.f64', kernel)));

/** The golden sweep over gbm42: 80 combos with their windows and results. */
export const golden = JSON.parse(readFileSync(new URL('testdata/sweep_gbm42.json', kernel), 'utf8'));

export const windowNames = ['hma_half', 'hma_full', 'hma_smooth', 'hma3_third', 'hma3_half', 'hma3_full'];

/** Sends a body; type and accept are media types. */
export async function post(path, body, type, accept) {
  const headers = {};
  if (type) headers['Content-Type'] = type;
  if (accept) headers.Accept = accept;
  return fetch(url + path, { method: 'POST', body, headers });
}

export async function get(path, accept) {
  return fetch(url + path, { headers: { Accept: accept } });
}

/** The body of an answer, once it is sure to be one. */
export async function bytes(response) {
  const body = new Uint8Array(await response.arrayBuffer());
  assert.equal(response.status, 200, new TextDecoder().decode(body.subarray(0, 300)));
  assert.equal(response.headers.get('Content-Encoding'), null);
  return body;
}

/** The problem in a refusal, which must blame the element at fault. */
export async function refused(response, status, field, index) {
  const problem = await response.json();
  assert.equal(response.status, status, JSON.stringify(problem));
  assert.equal(response.headers.get('Content-Type'), 'application/problem+json');
  assert.deepEqual([problem.field, problem.index], [field, index], problem.detail);
  return problem;
}

/** The little-endian doubles in bytes that may lie anywhere. */
export function floats(bytes) {
  return new Float64Array(bytes.slice().buffer);
}

/** The bits of numbers in hexadecimal, read as big-endian 64-bit integers. */
export function bits(numbers) {
  const view = new DataView(new ArrayBuffer(8));
  return Array.from(numbers, (v) => {
    view.setFloat64(0, v);
    return view.getBigUint64(0).toString(16).padStart(16, '0');
  });
}

/** The bits of numbers in memory, which no number in a register has touched. */
export function bitsOf(array) {
  const view = new DataView(array.buffer, array.byteOffset, array.byteLength);
  return Array.from({ length: array.length }, (_, i) => view.getBigUint64(8 * i, true).toString(16).padStart(16, '0'));
}

export function same(got, want) {
  assert.equal(got.length, want.length);
  assert.deepEqual(bits(got), bits(want));
}

/** As same, but of typed arrays and down to the payloads of NaNs. */
export function sameMemory(got, want) {
  assert.ok(got instanceof Float64Array && want instanceof Float64Array);
  assert.deepEqual(bitsOf(got), bitsOf(want));
}

function fromBits(list) {
  const array = new Float64Array(list.length);
  const view = new DataView(array.buffer);
  list.forEach((b, i) => view.setBigUint64(8 * i, b, true));
  return array;
}

function edges() {
  const list = [0n, 1n << 63n];
  for (let i = 1n; i < 60n; i++) list.push(i, (1n << 52n) - i, (1n << 52n) + i); // subnormals and the least normals
  for (let e = 0n; e < 52n; e++) list.push(1n << e, (1n << e) - 1n); // subnormal powers of two
  for (let e = 1n; e < 0x7ffn; e++) list.push(e << 52n, (e << 52n) - 1n, (e << 52n) + 1n); // the others
  list.push(0x7fefffffffffffffn); // the largest
  const random = splitMix(42n);
  for (let i = 0; i < 3000; i++) list.push(random() % 0x7ff0000000000000n);
  for (const b of list.slice()) list.push(b ^ (1n << 63n));
  const decimals = [
    0.1 + 0.2, 1052748004135.6885, 0.9884619112598676, 5.0216813883093451e-25, 7.3879056099341453e-309, 1.2345678901234567e-7,
    9.0071992547409917e15, 2.2250738585072011e-308, 1.7976931348623155e308, 2 ** 53, 2 ** 53 + 2, 2 ** 63, 1e21, 1e22, 1e23, 1e-7, 100,
  ];
  for (let e = -323; e <= 308; e++) decimals.push(Number(`1e${e}`));
  return Float64Array.from([...fromBits(list), ...decimals]);
}

function splitMix(seed) {
  return () => {
    seed = BigInt.asUintN(64, seed + 0x9e3779b97f4a7c15n);
    let z = seed;
    z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  };
}

/** Finite floats at which readers and writers of numbers have gone wrong. */
export const finite = edges();

/** Infinities, and NaNs with and without payloads: only memory keeps them. */
const odd = fromBits([
  0x7ff0000000000000n, 0xfff0000000000000n, 0x7ff8000000000000n, 0xfff8000000000123n, 0x7ff0000000000001n, 0xfff7ffffffffffffn, 0x7fffffffffffffffn,
]);

/** All of them, in memory that was copied as bytes. */
export const all = new Float64Array(finite.length + odd.length);
new Uint8Array(all.buffer).set(new Uint8Array(finite.buffer));
new Uint8Array(all.buffer).set(new Uint8Array(odd.buffer), finite.byteLength);

/** Checks results of the golden sweep, by column. */
export function checkGolden({ pnl, trades, open }) {
  same(pnl, golden.map((combo) => combo.pnl));
  assert.deepEqual(Array.from(trades, Number), golden.map((combo) => combo.trades));
  if (open) assert.ok(Array.from(open, Number).every((side) => side === 1 || side === -1 || side === 0) && open.length === golden.length);
}
