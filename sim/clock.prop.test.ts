import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LONGEST_US, localTime } from '../core/index.js';
import { Clock, type TrueTime, trueTime } from './index.js';

const THIRTY_DAYS = 30 * 86_400_000_000;
const rate = fc.integer({ min: -500_000, max: 500_000 });
const offset = fc.integer({ min: -THIRTY_DAYS, max: THIRTY_DAYS });
const passed = fc.integer({ min: 0, max: THIRTY_DAYS });

/** What happens to a clock, and how long after what happened before. */
const change = fc.record({
  afterUs: fc.integer({ min: 0, max: THIRTY_DAYS }),
  what: fc.oneof(fc.record({ stepUs: offset }), fc.record({ ratePpm: rate }), fc.record({ stopUs: passed })),
});

/** A clock with a past, and the time at which that ends. */
const lived = fc
  .record({ offsetUs: offset, ratePpm: rate, changes: fc.array(change, { maxLength: 4 }) })
  .map(({ offsetUs, ratePpm, changes }): { clock: Clock; now: TrueTime } => {
    const clock = new Clock(offsetUs, ratePpm);
    let now = 0;
    for (const { afterUs, what } of changes) {
      now += afterUs;
      if ('stepUs' in what) clock.step(trueTime(now), what.stepUs);
      else if ('ratePpm' in what) clock.setRate(trueTime(now), what.ratePpm);
      else clock.stop(trueTime(now), trueTime(now + what.stopUs));
    }
    return { clock, now: trueTime(now) };
  });

describe('a clock', () => {
  it('shows ⌊offset + passed × rate⌋ exactly, for 30 days and ±50 %', () => {
    fc.assert(
      fc.property(offset, rate, passed, (offsetUs, ppm, us) => {
        const exact = BigInt(us) * BigInt(1_000_000 + ppm);
        expect(new Clock(offsetUs, ppm).read(trueTime(us))).toBe(offsetUs + Number(exact / 1_000_000n));
      }),
      { numRuns: 2_000 },
    );
  });

  it('reaches a time at the least true time at which it shows it, whatever it has been through', () => {
    fc.assert(
      fc.property(lived, passed, ({ clock, now }, ahead) => {
        const local = localTime(clock.read(now) + ahead);
        const at = clock.when(local, now);
        expect(clock.read(at)).toBeGreaterThanOrEqual(local);
        if (at > now) expect(clock.read(trueTime(at - 1))).toBeLessThan(local);
        expect(clock.when(clock.read(at), now)).toBeLessThanOrEqual(at);
      }),
      { numRuns: 2_000 },
    );
  });

  it('reaches at once what it has passed', () => {
    fc.assert(
      fc.property(lived, passed, passed, ({ clock, now }, behind, later) => {
        const from = trueTime(now + later);
        expect(clock.when(localTime(clock.read(from) - behind), from)).toBe(from);
      }),
    );
  });

  it('never runs backwards between its changes', () => {
    fc.assert(
      fc.property(lived, passed, fc.nat({ max: 5 }), ({ clock, now }, later, gap) => {
        const first = clock.read(trueTime(now + later));
        expect(clock.read(trueTime(now + later + gap))).toBeGreaterThanOrEqual(first);
      }),
    );
  });

  it('never reaches the longest time there is', () => {
    fc.assert(
      fc.property(rate, (ppm) => {
        expect(new Clock(0, ppm).when(localTime(LONGEST_US), trueTime(0))).toBe(LONGEST_US);
      }),
    );
  });
});
