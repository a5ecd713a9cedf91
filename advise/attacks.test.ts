import { describe, expect, it } from 'vitest';
import { REFERENCE } from '../deviations/index.js';
import { parseSchedule } from '../scenarios/index.js';
import { attackOf, isShared, type LossyDisk, type Stress } from './attacks.js';

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

  it('may also leave a node alone whose clock it sets', () => {
    const away: Stress = { ...CALM, nodeStepUs: 500_000, loss: { kind: 'restarts', delayUs: 5_000_000, by: 'timer' } };
    expect(isShared(away)).toBe(true);
  });
});
