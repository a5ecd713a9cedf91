import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../../scenarios/index.js';
import { lock, unreached } from '../../sim/testing/schedule.js';
import { findings } from './testing/findings.js';

const lostAtOnce: Fault = { kind: 'crash', node: 'n2', atUs: 3_000, restartAfterUs: 0 };
const forgetAll = (atUs: number, ...nodes: readonly string[]): Fault[] =>
  nodes.map((node) => ({ kind: 'data-loss', node, atUs }));

describe('what a trace is checked for afterwards', () => {
  it('two believe at once, from the second claim to the end of the first', () => {
    const parts = { locks: [[lock(0)], [lock(2_000)]], faults: [lostAtOnce], fates: unreached('c1', 'n3', 'n4') };
    expect(findings(parts)).toEqual(['mutual-exclusion c1+c2 4000..9898000', 'quorum-backed c1 3000..9898000']);
  });

  it('nothing where one begins in the instant in which the other ends', () => {
    // c1 claims at 2,000 and releases at 5,000; c2's last vote arrives in that very instant.
    const locks = [[lock(0, { holdUs: 3_000 })], [lock(3_000)]];
    expect(findings({ locks, policy: { deviations: ['sets-any'] } })).toEqual([
      'quorum-backed c1 4000..5000',
      ...Array.from({ length: 5 }, () => 'owner-only-release c1+c2 4000..4000'),
    ]);
  });

  it('nothing where a key is there again in the instant in which it went, unless another one is missing', () => {
    const copy: Fate = {
      client: 'c1',
      operation: 'acquire',
      node: 'n2',
      direction: 'request',
      duplicateDelayUs: 5_000,
    };
    const fates = [...unreached('c1', 'n3', 'n4'), copy];
    const locks = [[lock(0, { resources: ['a', 'b'] })]];
    const missing: Fault = { kind: 'data-loss', node: 'n1', resource: 'b', atUs: 5_000 };
    expect(findings({ locks, fates, faults: forgetAll(5_000, 'n2') })).toEqual([]);
    expect(findings({ locks, fates, faults: [missing, ...forgetAll(5_000, 'n2')] })).toEqual([
      'quorum-backed c1 5000..9898000',
    ]);
  });

  it('a claim that is too long, and too few votes', () => {
    expect(
      findings({
        policy: {
          settings: { driftUs: 200_000, driftPpm: 0 },
          deviations: ['drift-constant-added', 'counts-from-reply'],
        },
      }),
    ).toContain('acquisition c1 2000..2000');
    expect(findings({ policy: { deviations: ['quorum:2'] }, fates: unreached('c1', 'n2', 'n3', 'n4') })).toEqual([
      'quorum-backed c1 2000..9898000',
      'acquisition c1 2000..2000',
    ]);
  });

  it('an extension that counts from its answers', () => {
    const locks = [[lock(0, { extensions: [{ afterUs: 1_000, ttlMs: 10_000 }] })]];
    expect(findings({ locks, policy: { deviations: ['extension-counts-from-reply'] } })).toEqual([
      'extension c1 5000..5000',
    ]);
    expect(findings({ locks })).toEqual([]);
  });

  it('an extension of a lock that others had in between, told once for all of its resources', () => {
    const extensions = [3_000_000, 6_000_000].map((afterUs) => ({ afterUs, ttlMs: 10_000 }));
    const resources = ['a', 'b'];
    const said = findings({
      locks: [[lock(0, { resources, extensions })], [lock(2_000_000, { resources, holdUs: 500_000 })]],
      faults: forgetAll(1_000_000, 'n0', 'n1', 'n2', 'n3', 'n4'),
      policy: { deviations: ['extends-any'] },
    });
    expect(said.filter((it) => it.startsWith('continuity'))).toEqual(['continuity c2+c1 3004000..3004000']);
    expect(said.filter((it) => it.startsWith('loss-notified'))).toEqual(['loss-notified c1 3004000..3004000']);
  });

  it('a lock that is extended after its owner was told of its end', () => {
    const said = findings({
      locks: [[lock(0, { extensions: [{ afterUs: 9_990_000, ttlMs: 10_000 }] })]],
      faults: forgetAll(1_000_000, 'n0', 'n1', 'n2', 'n3', 'n4'),
      policy: { deviations: ['extends-late', 'extends-missing'] },
    });
    expect(said).toEqual(['quorum-backed c1 1000000..9898000', 'loss-notified c1 9994000..9994000']);
  });

  it('a token that is used again', () => {
    const parts = { locks: [[lock(0)], [lock(5_000)]], policy: { deviations: ['token-per-call'] }, untilUs: 300_000 };
    expect(findings(parts)).toEqual(['unique-token c2+c2 207000..207000']);
  });

  it('a failed attempt that leaves one of its two keys, the other being forgotten', () => {
    const said = findings({
      locks: [[lock(0, { resources: ['a', 'b'] })]],
      faults: [{ kind: 'data-loss', node: 'n0', resource: 'a', atUs: 10_000 }],
      fates: unreached('c1', 'n1', 'n2', 'n3', 'n4'),
      policy: { settings: { tries: 1 }, deviations: ['cleans-nothing'] },
    });
    expect(said).toEqual(['cleanup c1 50000..50000']);
  });

  it('a key that comes late to where no release was sent', () => {
    const said = findings({
      fates: [
        ...unreached('c1', 'n1', 'n2', 'n3'),
        { client: 'c1', operation: 'acquire', node: 'n4', direction: 'request', delayUs: 70_000 },
      ],
      policy: { settings: { tries: 1 }, deviations: ['cleans-granted'] },
    });
    expect(said).toEqual(['cleanup c1 70000..70000']);
  });

  it('a key that came after its release, of which its client knows', () => {
    const said = findings({
      cluster: { link: 'reordering' },
      fates: [
        ...unreached('c1', 'n1', 'n2', 'n3'),
        { client: 'c1', operation: 'acquire', node: 'n4', direction: 'request', delayUs: 70_000 },
      ],
      policy: { settings: { tries: 1 }, deviations: ['late-grants-stay'] },
    });
    expect(said).toEqual(['cleanup c1 71000..71000']);
  });

  it('a release that leaves out who did not answer', () => {
    const locks = [[lock(0, { holdUs: 1_000_000 })]];
    const reply = { client: 'c1', operation: 'acquire', node: 'n4', direction: 'reply', lost: true } as const;
    expect(findings({ locks, fates: [reply], policy: { deviations: ['releases-granted'] } })).toEqual([
      'release-to-all c1 1002000..1002000',
      'cleanup c1 1002000..1002000',
    ]);
  });

  it('a release that leaves somebody out as it is called, though it is tried again later', () => {
    const locks = [[lock(0, { holdUs: 1_000_000 })]];
    const silent = (node: string, operation: 'acquire' | 'release'): Fate => {
      return { client: 'c1', operation, node, direction: 'reply', lost: true };
    };
    const fates = [silent('n4', 'acquire'), ...['n0', 'n1', 'n2', 'n3'].map((node) => silent(node, 'release'))];
    const policy = { settings: { releaseTries: 2 }, deviations: ['releases-granted', 'release-must-delete'] } as const;
    expect(findings({ locks, fates, policy }).filter((it) => /^(release|cleanup)/.test(it))).toEqual([
      'release-to-all c1 1002000..1002000',
      'cleanup c1 1002000..1002000',
    ]);
  });

  it('fencing tokens that do not rise, and a resource that refuses the highest', () => {
    const three = { nodes: 3 };
    const locks = [0, 2_000_000, 4_000_000].map((atUs) => [lock(atUs, { holdUs: 1_000_000 })]);
    const fates = [...unreached('c1', 'n2'), ...unreached('c2', 'n1'), ...unreached('c3', 'n0')];
    expect(findings({ cluster: three, locks, fates, policy: { deviations: ['fence-max', 'grants-count'] } })).toEqual([
      'fencing c2+c3 4002000..4002000',
    ]);
    expect(findings({ cluster: three, locks, fates, policy: { settings: { fencing: true } } })).toEqual([]);
    const write = (sendAfterUs: number) => ({ checkAfterUs: 0, guardUs: null, sendAfterUs, delayUs: 1_000 });
    const twice = [[lock(0, { writes: [write(1_000), write(2_000)] })]];
    const policy = { settings: { fencing: true } } as const;
    const said = findings({ cluster: three, locks: twice, policy, resource: 'fencing-strict' });
    expect(said).toEqual(['fencing c1 9000..9000']);
    expect(findings({ cluster: three, locks: twice, policy, resource: 'fencing' })).toEqual([]);
  });

  it('a write after the end', () => {
    const writes = [{ checkAfterUs: 0, guardUs: null, sendAfterUs: 0, delayUs: 9_896_000 }];
    expect(findings({ locks: [[lock(0, { writes })]] })).toEqual(['no-stale-write c1 9898000..9898000']);
    const early = [{ checkAfterUs: 0, guardUs: null, sendAfterUs: 0, delayUs: 9_895_999 }];
    expect(findings({ locks: [[lock(0, { writes: early })]] })).toEqual([]);
  });
});

it('a belief whose clock is set back in the instant of its end goes on without a gap', () => {
  const said = findings({
    policy: { habits: { clock: 'wall' } },
    locks: [[lock(0)], [lock(2_000)]],
    faults: [
      lostAtOnce,
      { kind: 'pause', process: 'c1', atUs: 5_000, forUs: 20_000_000 },
      { kind: 'clock-step', process: 'c1', atUs: 9_898_000, byUs: -1_000 },
    ],
    fates: unreached('c1', 'n3', 'n4'),
  });
  expect(said).toEqual(['mutual-exclusion c1+c2 4000..9899000', 'quorum-backed c1 3000..9899000']);
});

it('a claim that has lapsed unnoticed and is extended afterwards is believed in twice', () => {
  const first = lock(0, { extensions: [{ afterUs: 8_998_000, ttlMs: 10_000 }] });
  const said = findings({
    policy: { deviations: ['extension-votes:-1', 'extends-late'] },
    locks: [[first], [lock(2_000_000)]],
    faults: [
      { ...lostAtOnce, atUs: 1_000_000 },
      { kind: 'pause', process: 'c1', atUs: 9_001_000, forUs: 2_000_000 },
    ],
    fates: unreached('c1', 'n3', 'n4'),
  });
  expect(said.filter((it) => /^(mutual-exclusion|quorum-backed)/.test(it))).toEqual([
    'mutual-exclusion c1+c2 2002000..9898000',
    'mutual-exclusion c2+c1 11001000..11898000',
    'quorum-backed c1 1000000..9898000',
    'quorum-backed c1 11001000..18898000',
  ]);
});

it('a key whose extension was not on disk expires as it would have without it', () => {
  const said = findings({
    cluster: { persistence: 'always', answers: 'executed' },
    locks: [[lock(0, { extensions: [{ afterUs: 5_498_000, ttlMs: 10_000 }] })]],
    // The last fsync was at 5 s, the extension at 5.5 s.
    faults: [{ kind: 'crash', node: 'n0', atUs: 5_600_000, restartAfterUs: 0, power: true }],
  });
  expect(said).toEqual([]);
});

it('a belief that lasts until the release has returned', () => {
  const until = (beliefEnds: 'at-release' | 'after-release'): string[] =>
    findings({ locks: [[lock(0, { holdUs: 3_000 })]], policy: { habits: { beliefEnds } } });
  expect(until('at-release')).toEqual([]);
  // Called at 5 ms, carried out at 6 ms, and answered at 7 ms.
  expect(until('after-release')).toEqual(['quorum-backed c1 6000..7000']);
});

it('a key expires in its time, though its token sets one on another resource', () => {
  const locks = [[lock(0, { resources: ['b'] }), lock(9_900_000)]];
  expect(findings({ locks, policy: { deviations: ['token-per-call'], habits: { tokenPerProcess: true } } })).toEqual([
    'unique-token c1+c1 9900000..9900000',
    'one-lock-per-token c1+c1 9900000..9900000',
  ]);
});

it('a lock whose releases go out one after the other is released when the call returns', () => {
  const parts = { locks: [[lock(0, { holdUs: 3_000 })]], fates: unreached('c1', 'n3', 'n4') };
  const granted = (...deviations: string[]): string[] =>
    findings({ ...parts, policy: { deviations: ['releases-granted', ...deviations] } });
  expect(granted()).toEqual(['release-to-all c1 5000..5000']);
  expect(granted('releases-in-turn', 'release-awaits-all')).toEqual(['release-to-all c1 11000..11000']);
  const dead: Fault = { kind: 'crash', node: 'n0', atUs: 4_000, restartAfterUs: null };
  const stopped = findings({
    ...parts,
    faults: [dead],
    policy: { deviations: ['releases-until-error', 'release-awaits-all'] },
  });
  expect(stopped).toEqual(['release-to-all c1 55000..55000', 'cleanup c1 55000..55000']);
});

it('a lock that its owner gives up over a failed extension ends before its time', () => {
  const failing = (...deviations: string[]): string[] =>
    findings({
      locks: [[lock(0, { extensions: [{ afterUs: 1_000, ttlMs: 10_000 }] })]],
      faults: forgetAll(2_500, 'n0', 'n1', 'n2', 'n3', 'n4'),
      policy: { deviations },
    });
  expect(failing()).toEqual(['quorum-backed c1 2500..9898000']);
  expect(failing('failure-gives-up')).toEqual(['quorum-backed c1 2500..5000']);
});

describe('a key that its own token sets again', () => {
  const back: Fault = { kind: 'clock-step', process: 'n0', atUs: 100_000, byUs: -200_000 };

  it.each(['extends-missing', 'extends-any'])(
    'by an extension, after the clock of its node was set back (%s)',
    (deviation) => {
      const locks = [[lock(0, { extensions: [{ afterUs: 100_000, ttlMs: 10_000 }] })]];
      expect(findings({ locks, faults: [back], policy: { deviations: [deviation] } })).toEqual([]);
    },
  );

  const address = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request' } as const;

  it('by a second copy of its own SET', () => {
    const copy: Fate = { ...address, duplicateDelayUs: 150_000 };
    expect(findings({ faults: [back], fates: [copy], policy: { deviations: ['sets-any'] } })).toEqual([]);
  });
});

describe('locks with one token', () => {
  const policy = { deviations: ['token-per-call', 'own-key-grants'], habits: { tokenPerProcess: true } } as const;

  it('keys are those of the last that asked for them', () => {
    // The first is released where nothing of it was ever set; the second has the keys by then.
    const locks = [[lock(0, { holdUs: 20_000 }), lock(10_000)]];
    const said = (...more: string[]): string[] =>
      findings({ locks, policy: { ...policy, deviations: [...policy.deviations, ...more] } });
    expect(said()).toContain('quorum-backed c1 23000..9908000');
    expect(said('releases-granted').filter((it) => it.startsWith('cleanup'))).toEqual([]);
  });

  it('a lock on another resource leaves them alone', () => {
    const locks = [[lock(0), lock(1_000, { resources: ['b'], holdUs: 10_000 })]];
    const shared = ['unique-token c1+c1 1000..1000', 'one-lock-per-token c1+c1 1000..1000'];
    expect(findings({ locks, policy })).toEqual(shared);
    const faults = forgetAll(50_000, 'n0', 'n1', 'n2');
    expect(findings({ locks, policy, faults })).toEqual(['quorum-backed c1 50000..9898000', ...shared]);
  });

  it('a first attempt leaves a key behind, unless a later one takes it over before that is over', () => {
    const one = {
      policy: { ...policy, settings: { tries: 1 }, deviations: [...policy.deviations, 'cleans-nothing'] },
      fates: unreached('c1', 'n1', 'n2', 'n3'),
    } as const;
    const first = one.fates.map((fate) => ({ ...fate, lock: 0 }));
    const second = (atUs: number): string[] =>
      findings({ ...one, fates: first, locks: [[lock(0), lock(atUs)]] }).filter((it) => it.startsWith('cleanup'));
    expect(second(60_000)).toEqual(['cleanup c1 50000..50000']);
    expect(second(49_999)).toEqual([]);
  });
});
