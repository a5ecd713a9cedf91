import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { later, type Timer } from '../../core/index.js';
import { LockTimers } from './alarms.js';
import { bootStepOf, LocalClock } from './clock.js';
import { newRuntime } from './machine.js';

const HOUR_US = 3_600_000_000;

const TICK_US = 10_000;

function fakeMachine(phaseUs = 0, tickUs = TICK_US) {
  const time = { monotonicUs: 1_000_000 + phaseUs, suspendedUs: 0, stepUs: 0, tellsBoot: true };
  const clock = new LocalClock({
    monotonicUs: () => time.monotonicUs,
    wallMs: () => Math.floor((1_700_000_000_000_000 + time.monotonicUs + time.suspendedUs + time.stepUs) / 1000),
    bootUs: () => (time.tellsBoot ? Math.floor((time.monotonicUs + time.suspendedUs) / tickUs) * tickUs : null),
    bootStepUs: tickUs,
  });
  return { time, clock };
}

/** Elapsed times and suspends in all phases of the steps in which clocks are read. */
const elapsed = fc.integer({ min: 0, max: 30_000 });
const suspend = fc.integer({ min: 2001, max: 60_000 });

describe('the clock of locks', () => {
  test('counts whole microseconds of monotonic time', () => {
    const { time, clock } = fakeMachine();
    const from = clock.now();
    time.monotonicUs += 1234.5;
    expect(clock.now() - from).toBe(1234);
    expect(Number.isInteger(clock.now())).toBe(true);
  });

  test('does not notice a step back of the wall clock', () => {
    fc.assert(
      fc.property(elapsed, elapsed, (phaseUs, laterUs) => {
        const { time, clock } = fakeMachine(phaseUs);
        const from = clock.now();
        time.stepUs = -HOUR_US;
        time.monotonicUs += laterUs;
        expect(clock.now() - from).toBe(laterUs);
        expect(clock.checkedNow() - from).toBe(laterUs);
      }),
    );
  });

  test('gains two ticks at most from steps forward, however many', () => {
    fc.assert(
      fc.property(elapsed, fc.array(elapsed, { minLength: 1 }), (phaseUs, pauses) => {
        const { time, clock } = fakeMachine(phaseUs);
        const from = clock.now() - time.monotonicUs;
        for (const pauseUs of pauses) {
          time.stepUs += HOUR_US;
          time.monotonicUs += pauseUs;
          const gainedUs = clock.now() - time.monotonicUs - from;
          expect(gainedUs).toBeGreaterThanOrEqual(0);
          expect(gainedUs).toBeLessThanOrEqual(2 * TICK_US);
        }
      }),
    );
  });

  test('runs on over suspends above 2 ms, rather a little fast than slow', () => {
    fc.assert(
      fc.property(elapsed, fc.array(fc.tuple(elapsed, suspend), { minLength: 1 }), (phaseUs, suspends) => {
        const { time, clock } = fakeMachine(phaseUs);
        const from = clock.now() - time.monotonicUs;
        for (const [pauseUs, suspendedUs] of suspends) {
          time.monotonicUs += pauseUs;
          time.suspendedUs += suspendedUs;
          const aheadUs = clock.now() - time.monotonicUs - from - time.suspendedUs;
          expect(aheadUs).toBeGreaterThanOrEqual(0);
          expect(aheadUs).toBeLessThanOrEqual(2 * TICK_US);
        }
      }),
    );
  });

  test('finds a suspend that a wall-clock step hides from two ticks on, when a timer asks', () => {
    fc.assert(
      fc.property(elapsed, fc.integer({ min: 2 * TICK_US, max: HOUR_US }), (phaseUs, suspendedUs) => {
        const { time, clock } = fakeMachine(phaseUs);
        const from = clock.now();
        time.suspendedUs = suspendedUs;
        time.stepUs = -suspendedUs;
        expect(clock.checkedNow() - from).toBeGreaterThanOrEqual(suspendedUs);
      }),
    );
  });

  test('takes whole seconds of boot time, which Bun and Deno tell, for no suspend', () => {
    expect(bootStepOf('linux', { node: '20.0.0' })).toBe(TICK_US);
    const stepUs = bootStepOf('linux', { node: '26.0.0', deno: '2.0.0' });
    expect([stepUs, bootStepOf('linux', { bun: '1.0.0' })]).toEqual([1_000_000, 1_000_000]);
    const { time, clock } = fakeMachine(900_000, stepUs);
    const from = clock.checkedNow();
    time.monotonicUs += 150_000;
    expect(clock.checkedNow() - from).toBe(150_000);
    time.suspendedUs += 5_000_000;
    expect(clock.checkedNow() - from).toBeGreaterThanOrEqual(5_150_000);
  });

  test('takes a process that is stopped between two readings for no suspend', () => {
    const { time } = fakeMachine();
    let stopUs = 0;
    const clock = new LocalClock({
      monotonicUs: () => time.monotonicUs,
      wallMs: () => {
        time.monotonicUs += stopUs;
        stopUs = 0;
        return Math.floor(time.monotonicUs / 1000);
      },
      bootUs: () => time.monotonicUs,
      bootStepUs: TICK_US,
    });
    const from = clock.now();
    stopUs = 50_000;
    clock.now();
    expect(clock.now() - from).toBe(50_000);
  });

  test('is monotonic time alone where the system does not tell boot time', () => {
    const { time, clock } = fakeMachine();
    time.tellsBoot = false;
    const from = clock.now();
    time.suspendedUs = 60_000_000;
    expect(clock.checkedNow() - from).toBe(0);
  });
});

describe('alarms', () => {
  const real = new LocalClock();

  function record(): { alarms: LockTimers; rung: Timer[] } {
    const rung: Timer[] = [];
    return { alarms: new LockTimers(real, { onTimer: (timer) => rung.push(timer) }), rung };
  }

  test('ring once when due, not before, and not after cancel', async () => {
    const { alarms, rung } = record();
    const now = real.now();
    alarms.arm('expiry', later(now, 20_000), now);
    alarms.arm('retry', later(now, 20_000), now);
    alarms.cancel('retry');
    expect(rung).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(rung).toEqual(['expiry']);
  });

  test('that share a timer of Node ring each at its time, also after many that were cancelled', async () => {
    const { alarms, rung } = record();
    const now = real.now();
    for (let i = 0; i < 100; i++) {
      alarms.arm('attempt', later(now, 30_000 + i), now);
      alarms.cancel('attempt');
    }
    alarms.arm('release', later(now, 90_000), now);
    alarms.arm('extension', later(now, 10_000), now);
    alarms.arm('extension', later(now, 60_000), now);
    alarms.arm('retry', later(now, 10_000), now);
    await expect.poll(() => rung, { timeout: 5000 }).toEqual(['retry', 'extension', 'release']);
    expect(real.now() - now).toBeGreaterThanOrEqual(90_000);
  });

  test('leave nothing of Node behind once cleared', () => {
    const count = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = count();
    const { alarms } = record();
    const now = real.now();
    alarms.arm('attempt', later(now, 50_000), now);
    expect(count()).toBe(before + 1);
    alarms.cancel('attempt');
    alarms.arm('extension', later(now, 60_000), now);
    expect(count()).toBe(before + 1);
    alarms.clear();
    expect(count()).toBe(before);
  });

  test('wait for more than 2^31 ms without ringing at once', async () => {
    const { alarms, rung } = record();
    const now = real.now();
    alarms.arm('expiry', later(now, 2 ** 40 * 1000), now);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(rung).toEqual([]);
    alarms.cancel('expiry');
  });
});

test('tokens have 128 bits and do not repeat, jitter covers its range', () => {
  const { chance } = newRuntime();
  const chances = Array.from({ length: 10_000 }, () => chance.draw());
  expect(new Set(chances.map(({ token }) => token)).size).toBe(chances.length);
  expect(chances.every(({ token }) => /^[0-9a-f]{32}$/.test(String(token)))).toBe(true);
  const jitters = chances.map(({ jitterPpm }) => jitterPpm);
  expect(Math.min(...jitters)).toBeLessThan(10_000);
  expect(Math.max(...jitters)).toBeGreaterThan(990_000);
  expect(Math.max(...jitters)).toBeLessThan(1_000_000);
});
