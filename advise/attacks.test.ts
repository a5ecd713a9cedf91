import { describe, expect, it } from 'vitest';
import { driftAllowanceUs, policyWith, REFERENCE } from '../deviations/index.js';
import { parseSchedule } from '../scenarios/index.js';
import { attackOf, isShared, type LossyDisk, type Stress } from './attacks.js';
import { leastAllowance, leastRestartDelay } from './figures.js';

const CALM: Stress = {
  policy: REFERENCE,
  ttlMs: 1_000,
  nodes: 3,
  votes: 2,
  struck: 2,
  driftPpm: 0,
  latencyUs: 0,
  nodeStepUs: 0,
  clientStepUs: 0,
  suspendUs: 0,
  vmUs: 0,
  loss: { kind: 'none' },
};

describe('an attack', () => {
  it('finds nothing where nothing happens, and is a schedule as the grammar wants it', () => {
    const { overlap, schedule } = attackOf(CALM);
    expect(overlap).toBe(false);
    expect(parseSchedule(schedule)).toEqual(schedule);
  });

  it.each<LossyDisk>(['none', 'dump', 'everysec'])('loses votes that are on a disk of kind %s', (disk) => {
    for (const latencyUs of [0, 1_000]) {
      const stress: Stress = { ...CALM, latencyUs, loss: { kind: 'restarts', delayUs: 0, by: 'timer', disk } };
      expect(isShared(stress)).toBe(true);
      expect(isShared({ ...stress, loss: { kind: 'restarts', delayUs: 1_000_000, by: 'timer', disk } })).toBe(false);
    }
  });

  it.each([10, 50, 60, 300])('is no weaker on locks of %i ms of clients that wait for each node', (ttlMs) => {
    for (const nodeTimeoutUs of [null, 400_000]) {
      const policy = policyWith({ settings: { nodeTimeoutUs }, deviations: ['settles-with-all'] });
      const stress: Stress = { ...CALM, policy, ttlMs, nodeStepUs: 4_000 };
      const figure = leastAllowance(stress);
      expect(figure?.least).toBe(4_000);
      const delay = leastRestartDelay({ ...stress, nodeStepUs: 0 }, 'true-time');
      expect(delay?.least).toBe(1000 * ttlMs - driftAllowanceUs(policy, 1000 * ttlMs));
    }
  });

  it('stops no more nodes than it has to', () => {
    const stopped = (stress: Stress): number =>
      attackOf({ ...stress, loss: { kind: 'restarts', delayUs: 0, by: 'timer' } }).schedule.faults.filter(
        ({ kind }) => kind === 'crash',
      ).length;
    expect(stopped(CALM)).toBe(1);
    expect(stopped({ ...CALM, nodes: 5, votes: 3, struck: 3 })).toBe(1);
    expect(stopped({ ...CALM, nodes: 4, votes: 3, struck: 3 })).toBe(2);
    expect(stopped({ ...CALM, nodes: 3, votes: 3, struck: 3 })).toBe(2);
  });

  it('may also leave a node alone whose clock it sets', () => {
    const away: Stress = { ...CALM, nodeStepUs: 500_000, loss: { kind: 'restarts', delayUs: 5_000_000, by: 'timer' } };
    expect(isShared(away)).toBe(true);
  });
});
