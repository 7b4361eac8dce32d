import fc from 'fast-check';
import * as path from 'node:path';
import { expect, it } from 'vitest';
import { readJson } from '../../src/base/files';
import { dequantiseNf4, quantiseNf4 } from '../../src/model/nf4';

interface Fixture {
  codes: number[];
  absmax_codes: number[];
  absmax2: number[];
  offset: number;
  values: number[];
  tail: number[];
  sum: number;
  code_sum: number;
}

it('equals bitsandbytes: codes, magnitudes and weights', () => {
  const right = readJson(path.join(__dirname, 'fixtures', 'nf4.json')) as Fixture;
  const weights = Float32Array.from({ length: 64 * 300 }, (_, i) => {
    if (Math.floor(i / 64) === 5) return 0;
    const integer = Number((BigInt(i) * 1103515245n + 12345n) % 2147483648n);
    return (integer / 2 ** 31 - 0.5) * 2 ** (((Math.floor(i / 64) * 7) % 11) - 5);
  });
  const quantised = quantiseNf4(weights);
  expect([...quantised.codes.subarray(0, right.codes.length)]).toEqual(right.codes);
  expect(quantised.codes.reduce((a, b) => a + b, 0)).toBe(right.code_sum);
  expect([...quantised.magnitudes]).toEqual(right.absmax_codes);
  expect(quantised.mean).toBeCloseTo(right.offset, 6);
  quantised.scales.forEach((scale, i) => expect(scale).toBeCloseTo(right.absmax2[i]!, 5));
  const values = dequantiseNf4(quantised);
  // The mean of the magnitudes may differ in its last place, by the order of its sum.
  right.values.forEach((value, i) => expect(Math.abs(values[i]! - value)).toBeLessThan(1e-6 * (1 + Math.abs(value))));
  right.tail.forEach((value, i) => {
    expect(Math.abs(values[values.length - right.tail.length + i]! - value)).toBeLessThan(1e-6 * (1 + Math.abs(value)));
  });
  expect(values.reduce((a, b) => a + b, 0)).toBeCloseTo(right.sum, 2);
});

it('keeps zeros, signs and sizes, whatever the length', () => {
  const numbers = fc.array(fc.float({ noNaN: true, min: -1e3, max: 1e3 }), { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(numbers, (list) => {
      const weights = Float32Array.from(list);
      const back = dequantiseNf4(quantiseNf4(weights));
      expect(back.length).toBe(weights.length);
      expect(back.every(Number.isFinite)).toBe(true);
    }),
  );
  expect([...dequantiseNf4(quantiseNf4(new Float32Array(70)))]).toEqual(Array.from({ length: 70 }, () => 0));
  const same = Float32Array.from({ length: 128 }, (_, i) => (i % 2 ? 2 : -2));
  expect([...dequantiseNf4(quantiseNf4(same))]).toEqual([...same]);
});
