import { describe, expect, test } from 'vitest';
import { later, type Timer } from '../core/index.js';
import { Alarms } from './alarms.js';
import { drawChance } from './chance.js';
import { LocalClock } from './clock.js';

const HOUR_US = 3_600_000_000;

function fakeMachine() {
  const time = { monotonicUs: 1_000_000, suspendedUs: 0, stepUs: 0, tellsBoot: true };
  const clock = new LocalClock({
    monotonicUs: () => time.monotonicUs,
    wallMs: () => (1_700_000_000_000_000 + time.monotonicUs + time.suspendedUs + time.stepUs) / 1000,
    // Boot time in steps of 10 ms, as Linux tells it.
    bootUs: () => (time.tellsBoot ? Math.floor((time.monotonicUs + time.suspendedUs) / 10_000) * 10_000 : null),
  });
  return { time, clock };
}

describe('the clock of locks', () => {
  test('counts whole microseconds of monotonic time', () => {
    const { time, clock } = fakeMachine();
    const from = clock.now();
    time.monotonicUs += 1234.5;
    expect(clock.now() - from).toBe(1234);
    expect(Number.isInteger(clock.now())).toBe(true);
  });

  test.each([-HOUR_US, HOUR_US])('does not notice a wall-clock step of %d µs', (stepUs) => {
    const { time, clock } = fakeMachine();
    const from = clock.now();
    time.stepUs = stepUs;
    time.monotonicUs += 5000;
    expect(clock.now() - from).toBe(5000);
    expect(clock.checkedNow() - from).toBe(5000);
  });

  test('runs on over a suspend, rather a little fast than slow, and never goes back', () => {
    const { time, clock } = fakeMachine();
    const from = clock.now();
    time.suspendedUs = 60_000_000;
    const after = clock.now() - from;
    expect(after).toBeGreaterThanOrEqual(60_000_000);
    expect(after).toBeLessThan(60_050_000);
    time.monotonicUs += 1;
    expect(clock.now() - from).toBeGreaterThanOrEqual(after);
  });

  test('finds a suspend that a wall-clock step hides, when a timer asks', () => {
    const { time, clock } = fakeMachine();
    const from = clock.now();
    time.suspendedUs = 60_000_000;
    time.stepUs = -60_000_000;
    expect(clock.checkedNow() - from).toBeGreaterThanOrEqual(60_000_000);
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

  function record(): { alarms: Alarms; rung: Timer[] } {
    const rung: Timer[] = [];
    return { alarms: new Alarms(real, { onTimer: (timer) => rung.push(timer) }), rung };
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
  const chances = Array.from({ length: 10_000 }, drawChance);
  expect(new Set(chances.map(({ token }) => token)).size).toBe(chances.length);
  expect(chances.every(({ token }) => /^[0-9a-f]{32}$/.test(String(token)))).toBe(true);
  const jitters = chances.map(({ jitterPpm }) => jitterPpm);
  expect(Math.min(...jitters)).toBeLessThan(10_000);
  expect(Math.max(...jitters)).toBeGreaterThan(990_000);
  expect(Math.max(...jitters)).toBeLessThan(1_000_000);
});
