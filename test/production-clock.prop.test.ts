import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LocalClock } from '../real/lock/parts.js';
import { Clocks, type TrueTime, trueTime } from '../sim/index.js';

/** What befalls a machine, and how long after what befell it before, µs. */
const event = fc.record({
  afterUs: fc.integer({ min: 1, max: 60_000_000 }),
  what: fc.oneof(
    fc.record({ wallByUs: fc.integer({ min: -3_600_000_000, max: 3_600_000_000 }) }),
    fc.record({ sleepUs: fc.integer({ min: 1, max: 3_600_000_000 }) }),
    fc.record({ ratePpm: fc.integer({ min: -500, max: 500 }) }),
    fc.constant({ pausedUs: 20_000_000 }),
  ),
});

/** Boot time is told in steps. */
const BOOT_STEP_US = 10_000;
/** The longest suspend that the production clock does not count, and by how much it rather ends a claim early. */
const LATE_US = 2000;
const EARLY_US = 2 * BOOT_STEP_US;

it('the clock of production is the clock that the reference policy reads, on a machine that sleeps, is set and slewed', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 20 }), (events) => {
      const machine = new Clocks(1_000_000, 0);
      let now: TrueTime = trueTime(0);
      const clock = new LocalClock({
        monotonicUs: () => machine.monotonic.read(now),
        wallMs: () => Math.floor(machine.wall.read(now) / 1000),
        bootUs: () => Math.floor(machine.boot.read(now) / BOOT_STEP_US) * BOOT_STEP_US,
        bootStepUs: BOOT_STEP_US,
      });
      let last: number = clock.now();
      for (const { afterUs, what } of events) {
        now = trueTime(now + afterUs);
        if ('wallByUs' in what) machine.wall.step(now, what.wallByUs);
        else if ('ratePpm' in what) machine.setRate(now, what.ratePpm);
        else {
          const all = 'pausedUs' in what;
          const until = trueTime(now + (all ? what.pausedUs : what.sleepUs));
          machine.suspend(now, until, all ? 'all' : 'monotonic');
          now = until;
        }
        const shown = clock.checkedNow();
        const ahead = shown - machine.read('boot').read(now);
        expect(ahead).toBeGreaterThanOrEqual(-LATE_US);
        expect(ahead).toBeLessThanOrEqual(EARLY_US);
        expect(shown).toBeGreaterThanOrEqual(last);
        last = shown;
      }
    }),
    { numRuns: 500, seed: 1 },
  );
});
