import { describe, expect, it } from 'vitest';
import { dataLossAttack } from '../../bench/bounds/data-loss.js';
import {
  fewExtendedAttack,
  greatestElapsedFromReply,
  overtakenAttack,
  slowRoundAttack,
} from '../../bench/bounds/extensions.js';
import { leastRestartDelay, restartAttack } from '../../bench/bounds/restart.js';
import { splitSchedule } from '../../bench/bounds/split.js';
import { clientStepAttack, greatestNodeStep, nodeStepAttack } from '../../bench/bounds/steps.js';
import { holderCrashAttack, waitAttack } from '../../bench/bounds/waiting.js';
import { judge } from '../../properties/judge.js';
import { formatSchedule, parseScheduleText } from '../../scenarios/index.js';
import { type Attack, EXACT, strikeAt, WORST } from './adversary.js';
import { rateAttack, USUAL_DRIFT } from './rates.js';
import { observeRun } from './watch.js';

const CASE = { ttlMs: 10_000, delayUs: 1000 };

const BEYOND: readonly (readonly [string, Attack])[] = [
  ['rates', rateAttack({ ...CASE, drift: USUAL_DRIFT }, 5_300)],
  ['node step', nodeStepAttack(CASE, 105_001)],
  ['client step', clientStepAttack(CASE, 105_001)],
  ['restart', restartAttack({ ...CASE, crashUs: 1000 }, 9_895_999)],
  ['amnesia', dataLossAttack({ nodes: 5, quorum: 3, votes: 4 }, [0, 1])],
  ['base of an extension', slowRoundAttack(CASE, 'reply', 105_001)],
  ['minority extension', fewExtendedAttack(5, 3, 2)],
  ['overtaken extension', overtakenAttack(10_000, 'own-or-missing', 8_395)],
];

describe('the adversary', () => {
  it.each(BEYOND)('is a schedule that replays to the same verdict: %s', (_, attack) => {
    const replayed = judge(parseScheduleText(formatSchedule(attack.schedule), 'attack'));
    expect([attack.overlap, replayed.verdict]).toEqual([true, 'violated']);
  });

  it('cannot strike a microsecond sooner', () => {
    const setting = { ...CASE, votes: 3, grain: EXACT };
    const sooner = [0, 1].map((us) => strikeAt(setting, CASE.delayUs + 10_000_000 - us).claims.length);
    expect(sooner).toEqual([2, 1]);
    expect([0, 1].map((us) => holderCrashAttack(CASE, us).claims.length)).toEqual([1, 0]);
  });

  it('overlaps by a microsecond just beyond the boundary, and not at it', () => {
    const [beyond] = judge(nodeStepAttack(CASE, 105_001).schedule).violations.filter((it) => it.kind === 'belief');
    expect((beyond?.untilUs ?? 0) - (beyond?.atUs ?? 0)).toBe(1);
    expect(nodeStepAttack(CASE, 105_000)).toMatchObject({ overlap: false, claims: { length: 2 } });
  });

  it('gains nothing from a phase or a time of the step between those that are measured', () => {
    const phases = [0, 1, 250, 500, 750, 998, 999].map((phaseUs) =>
      greatestNodeStep({ ...CASE, grain: { ...WORST, phaseUs } }),
    );
    expect(phases).toEqual([105_000, 104_999, 104_750, 104_500, 104_250, 104_002, 104_001]);
    const times = [1_001, 2_000, 500_000, 9_000_000].map((atUs) => greatestNodeStep({ ...CASE, atUs }));
    expect(new Set(times)).toEqual(new Set([105_000]));
  });

  it('needs every one of the nodes that a rival lacks', () => {
    for (const [votes, stepping] of [
      [4, 1],
      [5, 2],
    ] as const) {
      for (const byUs of [105_001, 1_000_000, 9_999_999]) {
        expect(nodeStepAttack({ ...CASE, votes, stepping }, byUs).overlap).toBe(false);
      }
    }
  });
});

describe('rules that leave no boundary', () => {
  it('an extension that counts from its start never lets anybody in, however slow', () => {
    for (const elapsedUs of [2_000, 105_001, 1_000_000, 4_800_000]) {
      expect(slowRoundAttack(CASE, 'start', elapsedUs)).toMatchObject({ overlap: false, extended: { length: 1 } });
    }
    expect(greatestElapsedFromReply(CASE)).toBe(105_000);
  });

  it('a command that never shortens can be overtaken by any other', () => {
    for (const shortMs of [1, 1_000, 8_395]) {
      expect(overtakenAttack(10_000, 'own', shortMs)).toMatchObject({ overlap: false, claims: { length: 2 } });
    }
  });

  it('a vote that splits once splits for ever if nobody waits for a random time', () => {
    expect(observeRun(splitSchedule(5, [2, 2, 1], 30)).claims).toEqual([]);
    expect(observeRun(splitSchedule(5, [3, 2], 30)).claims).not.toEqual([]);
  });

  it('no arrival makes a client wait longer than one just before the lock is free', () => {
    const pause = { timeoutUs: 50_000, retryDelayUs: 200_000, retryJitterUs: 100_000 };
    for (const twoDown of [false, true]) {
      const wait = (earlyUs: number): number => {
        const { freeUs, claimUs } = waitAttack({ ...CASE, ...pause, twoDown }, earlyUs);
        return claimUs - freeUs;
      };
      const others = Array.from({ length: 400 }, (_, i) => wait(1 + 1_013 * i));
      expect(Math.max(...others)).toBe(wait(1));
    }
  });

  it('the restart delay that is long enough stays long enough when the crash comes later', () => {
    const safeUs = leastRestartDelay({ ...CASE, crashUs: 1000 });
    for (const crashUs of [1_000, 2_000, 50_000, 5_000_000]) {
      expect(restartAttack({ ...CASE, crashUs }, safeUs).overlap).toBe(false);
    }
  });
});
