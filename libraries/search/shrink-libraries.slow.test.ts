import { expect, it } from 'vitest';
import type { Schedule } from '../../scenarios/index.js';
import { handed } from '../adapters/connected.js';
import { type Library, loadSubject } from '../adapters/index.js';
import { LOCKSTEP } from '../adapters/lockstep.js';
import { REDLOCK_4 } from '../adapters/redlock4.js';
import { REDLOCK_5 } from '../adapters/redlock5.js';
import { counterexample } from '../counterexample.js';
import { COMMAND_TIMEOUT_MS, lockFactoryOf } from '../lock-factory.js';
import { replayLibraries } from '../run.js';
import { install } from '../runtime/install.js';
import type { LockFactory } from '../session.js';
import { FAULT_CLASSES } from './fault-classes.js';
import { kindOf, type ViolationKind } from './kinds.js';
import { type FoundByLibraries, searchLibraries } from './search.js';
import { isMinimalForLibrary, shrinkForLibrary } from './shrink-libraries.js';

async function found(
  subject: LockFactory,
  fault: string,
  kind: ViolationKind,
  runs: number,
): Promise<FoundByLibraries> {
  const faults = FAULT_CLASSES.find(({ id }) => id === fault);
  if (faults === undefined) throw new Error(`no faults ${fault}`);
  const cell = await searchLibraries(subject, faults, { seed: 'x', runs, drain: 'at-once' });
  const it = cell.found.find((one) => one.kind === kind);
  if (it === undefined) throw new Error(`no ${kind} in ${runs} runs`);
  return it;
}

async function kindsOn(library: Library, schedule: Schedule): Promise<readonly ViolationKind[]> {
  return (await replayLibraries(await loadSubject(library), schedule)).violations.map(kindOf);
}

const where = { run: 0, runs: 1, seed: 'x', foundEvents: 0, replay: 'x' };

it('finds that redlock 4 uses one token for all tries, and shows it by a schedule that is 1-minimal', async () => {
  install();
  // On one connection nothing overtakes; on those that it is handed, as through a pool, it may.
  const subject = await lockFactoryOf('redlock 4', await REDLOCK_4.load(handed), COMMAND_TIMEOUT_MS);
  const { schedule: drawn, assumptionsBroken } = await found(subject, 'spikes-reordering', 'belief', 10);
  expect(assumptionsBroken).toEqual([]);
  const { schedule, minimal } = await shrinkForLibrary(subject, drawn, 'belief');
  expect(minimal).toBe(true);
  expect(await isMinimalForLibrary(subject, schedule, 'belief')).toBe(true);
  expect(await isMinimalForLibrary(subject, drawn, 'belief')).toBe(false);
  const text = await counterexample(subject, schedule, 'belief', where);
  expect(text).toMatch(/itself deleted B on n3, by what\s+it had sent at \d+/);
  expect(text).toMatch(/needed .*; without any one of them:\s+passes/);
  expect(await counterexample(subject, drawn, 'belief', where)).not.toContain('without any one of them');
  expect(await kindsOn(LOCKSTEP, schedule)).toEqual([]);
});

it('finds that redlock 5 hands over locks that are over, and shows it by a schedule that is 1-minimal', async () => {
  const subject = await loadSubject(REDLOCK_5);
  const { schedule: drawn, assumptionsBroken } = await found(subject, 'long-delays', 'acquisition', 25);
  expect(assumptionsBroken).toEqual([]);
  const { schedule, minimal } = await shrinkForLibrary(subject, drawn, 'acquisition');
  expect(minimal).toBe(true);
  expect(await isMinimalForLibrary(subject, schedule, 'acquisition')).toBe(true);
  const text = await counterexample(subject, schedule, 'acquisition', where);
  expect(text).toMatch(/is given a lock that ended \d+(\.\d+)? ms ago/);
  for (const library of [REDLOCK_4, LOCKSTEP]) expect(await kindsOn(library, schedule)).toEqual([]);
});

it('says so where it ends before nothing more can be left out', async () => {
  const subject = await loadSubject(REDLOCK_5);
  const { schedule: drawn } = await found(subject, 'long-delays', 'acquisition', 25);
  const { minimal, tried } = await shrinkForLibrary(subject, drawn, 'acquisition', {}, { mostTried: 10 });
  expect([minimal, tried]).toEqual([false, 10]);
  const text = await counterexample(subject, drawn, 'acquisition', { ...where, shrinkingEndedAfter: tried });
  expect(text).toContain('shrinking ended after 10 tries: something may still be left out');
});
