import { describe, expect, it } from 'vitest';
import { judge } from '../../properties/judge.js';
import type { Fault, PropertyId, Schedule } from '../../scenarios/index.js';
import { RandomStreams, simulate } from '../../sim/index.js';
import { type FaultModel, NO_STRETCH, WITHIN_ASSUMPTIONS } from '../fault-model.js';
import { recordRun } from '../generated-run.js';
import { shrink } from '../shrink.js';
import { failsLike } from './fails-like.js';
import { oneStepsOf } from './reduce.js';

/** Noisy failures of one kind: the first of a search, in which only a fault of this kind does it. */
function noisy(faultModel: FaultModel, property: PropertyId, kind: Fault['kind'], most: number): Schedule[] {
  const found: Schedule[] = [];
  const streams = new RandomStreams(`classic ${kind}`);
  for (let run = 0; run < 20_000 && found.length < most; run++) {
    const { schedule } = recordRun(faultModel, streams, run);
    if (schedule.fates.length + schedule.faults.length < 6 || !breaks(schedule, property)) continue;
    const without = { ...schedule, faults: schedule.faults.filter((fault) => fault.kind !== kind) };
    const only = { ...schedule, faults: schedule.faults.filter((fault) => fault.kind === kind) };
    if (!breaks(without, property) && breaks(only, property)) found.push(schedule);
  }
  return found;
}

function breaks(schedule: Schedule, property: PropertyId): boolean {
  return judge(schedule, [property]).violations.some((it) => it.property === property);
}

/** Who does what: locks of each client, and the faults. */
function shapeOf({ clients, faults }: Schedule): string {
  const locks = clients.map(({ id, locks: list }) => `${id} ${list.length}`);
  return [...locks.map((it) => it.replace(/^c\d+/, 'client')), ...faults.map(({ kind }) => kind)].join(', ');
}

function shapes(failures: readonly Schedule[], property: PropertyId): string[] {
  expect(failures.length).toBeGreaterThanOrEqual(5);
  return failures.map((found) => {
    const { schedule } = shrink(found, property);
    const fails = failsLike(schedule, property);
    expect([...oneStepsOf(schedule)].filter(fails)).toEqual([]);
    return shapeOf(schedule);
  });
}

describe('noisy failures of the classic kinds are shrunk to', () => {
  it('two clients and one crash (S03)', () => {
    const faultModel = {
      ...WITHIN_ASSUMPTIONS,
      stretch: { ...NO_STRETCH, 'restart-delay': 1 },
      restartDelayUs: 0,
      failovers: 0,
    };
    const found = noisy(faultModel, 'mutual-exclusion', 'crash', 8);
    for (const shape of shapes(found, 'mutual-exclusion')) expect(shape).toBe('client 1, client 1, crash');
  });

  it('two clients and one clock step', () => {
    const faultModel = {
      ...WITHIN_ASSUMPTIONS,
      stretch: { ...NO_STRETCH, 'clock-step': 1 },
      stepUs: 20_000_000,
      failovers: 0,
    };
    const found = noisy(faultModel, 'mutual-exclusion', 'clock-step', 8);
    for (const shape of shapes(found, 'mutual-exclusion')) expect(shape).toBe('client 1, client 1, clock-step');
  });

  it('a client that is frozen between its check and its write', () => {
    const faultModel = { ...WITHIN_ASSUMPTIONS, stretch: NO_STRETCH, failovers: 0, clientCrashes: 0, pauses: 0 };
    const found: Schedule[] = [];
    const streams = new RandomStreams('classic pause');
    for (let run = 0; run < 200 && found.length < 8; run++) {
      const frozen = withFrozenWrite(recordRun(faultModel, streams, run).schedule);
      if (frozen !== null && frozen.fates.length >= 6 && breaks(frozen, 'no-stale-write')) found.push(frozen);
    }
    for (const shape of shapes(found, 'no-stale-write')) expect(shape).toBe('client 1, pause');
  });
});

/** Has the client that claims first write, and freezes it between its check and the sending until its claim is over. */
function withFrozenWrite(schedule: Schedule): Schedule | null {
  const claim = simulate(schedule, { trace: true }).trace.find(({ kind }) => kind === 'claim');
  if (claim === undefined) return null;
  const pause: Fault = { kind: 'pause', process: claim.process, atUs: claim.atUs + 2_345, forUs: 45_678_901 };
  const write = { checkAfterUs: 1_234, guardUs: 1_000, sendAfterUs: 3_456, delayUs: 0 };
  return {
    ...schedule,
    faults: [...schedule.faults, pause],
    clients: schedule.clients.map((client) => ({
      ...client,
      locks: client.locks.map((lock, i) =>
        client.id === claim.process && i === claim.detail.lock ? { ...lock, holdUs: null, writes: [write] } : lock,
      ),
    })),
  };
}
