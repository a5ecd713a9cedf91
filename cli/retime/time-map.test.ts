import fc from 'fast-check';
import { expect, test } from 'vitest';
import { candidateScales, idleScale, mapped } from './time-map.js';

const TTL_US = 10_000_000;
const instants = fc.array(fc.nat(30_000_000), { maxLength: 10 });

test('every pace keeps the order, and what lies a key’s life apart stays a key’s life apart', () => {
  fc.assert(
    fc.property(instants, fc.nat(30_000_000), fc.nat(5_000_000), (written, atUs, laterUs) => {
      for (const map of candidateScales(TTL_US, written)) {
        expect(idleScale(map)).toBeGreaterThan(0);
        expect(mapped(map, atUs + laterUs)).toBeGreaterThanOrEqual(mapped(map, atUs));
        expect(mapped(map, atUs + TTL_US)).toBe(mapped(map, atUs) + map.realPeriodUs);
      }
    }),
  );
});

test('what is written to happen within milliseconds is stretched, and the rest is short', () => {
  const [first] = candidateScales(TTL_US, []);
  if (first === undefined) throw new Error('no pace');
  expect([0, 1_000, 3_000, 20_000].map((us) => mapped(first, us))).toEqual([0, 25_000, 75_000, 500_000]);
  expect(mapped(first, TTL_US)).toBe(2_000_000);
  const around = candidateScales(TTL_US, [518_000, 519_000]).find(({ zones }) => zones[0]?.fromUs === 515_000);
  if (around === undefined) throw new Error('no pace around these instants');
  expect(mapped(around, 519_000) - mapped(around, 518_000)).toBe(around.stretch * 1_000);
});

test('a short life of keys is made longer', () => {
  const all = candidateScales(100_000, [0, 46_000]);
  expect(all.every(({ realPeriodUs }) => realPeriodUs >= 1_000_000)).toBe(true);
});
