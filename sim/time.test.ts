import { expect, expectTypeOf, it } from 'vitest';
import { type LocalTime, later, localTime } from '../core/index.js';
import { Clock } from './clock.js';
import { after, type TrueTime, trueTime } from './time.js';

it('moves true time by exact microseconds', () => {
  expect(after(trueTime(1_000), 1)).toBe(1_001);
  expect(after(trueTime(1_000), -1_001)).toBe(-1);
});

it('does not compile where true time and a reading of a clock are mixed', () => {
  const world = trueTime(1_000);
  const process = localTime(1_000);
  const clock = new Clock(0, 0);
  expectTypeOf<TrueTime>().not.toExtend<LocalTime>();
  expectTypeOf<LocalTime>().not.toExtend<TrueTime>();
  expectTypeOf(clock.read(world)).toEqualTypeOf<LocalTime>();
  expectTypeOf(clock.when(process, world)).toEqualTypeOf<TrueTime>();
  // @ts-expect-error a clock is asked with true time
  clock.read(process);
  // @ts-expect-error a reading comes first, then the true time from which on
  clock.when(world, process);
  // @ts-expect-error only `later` moves readings
  after(process, 1);
  // @ts-expect-error only `after` moves true time
  later(world, 1);
  // @ts-expect-error a number is neither
  after(1_000, 1);
  // @ts-expect-error no process is handed true time
  const handed: LocalTime = world;
  expect(handed).toBe(1_000);
});
