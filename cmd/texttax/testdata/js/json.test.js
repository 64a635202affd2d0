// JSON.parse and JSON.stringify, whose number texts are those of ECMAScript.

import assert from 'node:assert/strict';
import test from 'node:test';
import { OCTET, JSON_TYPE, JSON_STD, bytes, checkGolden, finite, floats, gbm42, get, golden, post, refused, same } from './service.js';

for (const type of [JSON_TYPE, JSON_STD]) {
  test(`every float that stringify writes is read (${type})`, async () => {
    // JSON.stringify writes -0 as 0: the sign is lost before it is sent.
    const close = finite.filter((v) => !Object.is(v, -0));
    const r = await post('/echo', JSON.stringify({ close: Array.from(close) }), type, OCTET);
    same(floats(await bytes(r)), close);
    assert.equal(JSON.stringify([-0]), '[0]');
  });

  test(`every float of an answer is parsed (${type})`, async () => {
    const r = await post('/echo', finite, undefined, type);
    same((await r.json()).close, finite);
  });

  test(`a text of stringify comes back as it was (${type})`, async () => {
    const text = JSON.stringify({ close: Array.from(finite.filter((v) => !Object.is(v, -0))) });
    assert.equal(await (await post('/echo', text, type)).text(), text);
  });

  test(`-0 and NaN arrive as stringify writes them, or are refused (${type})`, async () => {
    same((await (await post('/echo', '{"close":[-0,-0.0,0]}', type)).json()).close, [-0, -0, 0]);
    await refused(await post('/echo', JSON.stringify({ close: [100, NaN, Infinity] }), type), 422, 'close', 1);
    await refused(await post('/sweep?lengths=6', JSON.stringify({ close: [100, 101, undefined] }), type), 422, 'close', 2);
    await refused(await post('/echo', Float64Array.of(1, NaN), undefined, type), 422, 'close', 1);
  });

  test(`a sweep gives the golden grid (${type})`, async () => {
    const body = { close: Array.from(gbm42), params: golden.map((combo) => combo.windows) };
    checkGolden(await (await post('/sweep', JSON.stringify(body), type)).json());
    checkGolden(await (await post('/sweep?lengths=6:200:80&dataset=gbm42', undefined, undefined, type)).json());
  });
}

test('the demo series is parsed', async () => {
  same((await (await get('/datasets/gbm42', JSON_TYPE)).json()).close, gbm42);
});

test('a string that fetch calls text/plain is refused with a list of what is accepted', async () => {
  const r = await post('/echo', JSON.stringify({ close: [1] }));
  assert.match((await refused(r, 415)).detail, /application\/json/);
});
