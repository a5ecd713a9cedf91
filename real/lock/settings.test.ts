import { Redis } from 'ioredis';
import { afterEach, describe, expect, test } from 'vitest';
import { DEFAULT_SETTINGS, type LockPolicy, SOUND_POLICY } from '../../core/index.js';
import { provision } from '../provisioner/index.js';
import { LockError, Redlock, type RedlockSettings } from './index.js';
import { DEFAULTS, policyFor, resolveSettings } from './settings.js';

const clients: Redis[] = [];
function client(port: number, options = {}): Redis {
  const made = new Redis({ port, lazyConnect: true, ...options });
  clients.push(made);
  return made;
}
afterEach(() => {
  for (const made of clients.splice(0)) made.disconnect();
});

function messageOf(make: () => unknown): string {
  try {
    make();
  } catch (error) {
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({ code: 'ERR_LOCK_CONFIG' });
    return (error as LockError).message;
  }
  throw new Error('nothing was thrown');
}

describe('settings', () => {
  test('are by default the reference policy with unlimited extensions', () => {
    expect(policyFor(DEFAULTS, 10_000, false)).toEqual({
      ...SOUND_POLICY,
      settings: { ...DEFAULT_SETTINGS, maxExtensions: null },
    });
  });

  test('reach the policy in its units', () => {
    const settings = resolveSettings(
      DEFAULTS,
      { driftFactor: 0.07, retryCount: -1, retryDelay: 1.5, retryJitter: 0, nodeTimeoutMs: 20, votesWanted: 4 },
      5,
    );
    expect(policyFor(settings, 10_000, true).settings).toMatchObject({
      driftPpm: 70_000,
      tries: null,
      retryDelayUs: 1500,
      retryJitterUs: 0,
      nodeTimeoutUs: 20_000,
      votesWanted: 4,
      autoExtendAtUs: 500_000,
    });
  });

  test('leave a short lock time to live: time-out and threshold are at most half of its validity', () => {
    expect(policyFor(DEFAULTS, 50, true).settings).toMatchObject({ nodeTimeoutUs: 23_500, autoExtendAtUs: 23_500 });
  });

  test.each<[object, string]>([
    [{ driftFactor: -0.01 }, 'driftFactor is -0.01, but it must be a number from 0 to below 1, such as 0.01.'],
    [{ driftFactor: Number.NaN }, 'driftFactor is NaN, but it must be a number from 0 to below 1, such as 0.01.'],
    [{ driftFactor: Infinity }, 'driftFactor is Infinity, but it must be a number from 0 to below 1, such as 0.01.'],
    [{ retryCount: 1.5 }, 'retryCount is 1.5, but it must be a whole number, 0 or more, or -1 to try for ever.'],
    [{ retryDelay: -1 }, 'retryDelay is -1, but it must be a number of milliseconds from 0 to 86400000, a day.'],
    [
      { nodeTimeoutMs: 0 },
      'nodeTimeoutMs is 0, but it must be a number of milliseconds above 0, up to 86400000, a day.',
    ],
    [
      { nodeTimeoutMs: '50' },
      'nodeTimeoutMs is "50", but it must be a number of milliseconds above 0, up to 86400000, a day.',
    ],
    [{ retryDelay: 1e308 }, 'retryDelay is 1e+308, but it must be a number of milliseconds from 0 to 86400000, a day.'],
    [
      { retryDelay: () => 1 },
      'retryDelay is a function, but it must be a number of milliseconds from 0 to 86400000, a day.',
    ],
    [{ maxExtensions: -1 }, 'maxExtensions is -1, but it must be a whole number, 0 or more, or null for no limit.'],
    [{ votesWanted: 2 }, 'votesWanted is 2, but with 5 nodes it must be from the quorum, 3, to 5.'],
    [{ votesWanted: 6 }, 'votesWanted is 6, but with 5 nodes it must be from the quorum, 3, to 5.'],
    [{ quorum: 2 }, `There is no setting quorum; the settings are ${Object.keys(DEFAULTS).join(', ')}.`],
  ])('refuse %j', (given, message) => {
    expect(messageOf(() => resolveSettings(DEFAULTS, given, 5))).toBe(message);
  });

  test.each<[number, string]>([
    [-1, 'The TTL is -1, but it must be a whole number of milliseconds from 1 to 9007199254740991.'],
    [0, 'The TTL is 0, but it must be a whole number of milliseconds from 1 to 9007199254740991.'],
    [1.5, 'The TTL is 1.5, but it must be a whole number of milliseconds from 1 to 9007199254740991.'],
    [Infinity, 'The TTL is Infinity, but it must be a whole number of milliseconds from 1 to 9007199254740991.'],
    [3, 'A TTL of 3 ms does not leave anything after the drift allowance of 3 ms.'],
  ])('refuse a TTL of %d ms', (ttlMs, message) => {
    expect(messageOf(() => policyFor(DEFAULTS, ttlMs, false))).toBe(message);
  });

  test('refuse a TTL that cannot leave minValidityMs', () => {
    const settings = resolveSettings(DEFAULTS, { minValidityMs: 97 }, 5);
    expect(messageOf(() => policyFor(settings, 100, false))).toBe(
      'A TTL of 100 ms does not leave more than the 97 ms of minValidityMs after the drift allowance of 3 ms.',
    );
  });
});

describe('new Redlock', () => {
  test('refuses to go without nodes', () => {
    expect(messageOf(() => new Redlock([]))).toBe(
      'Redlock needs at least one client, one for each independent Redis node.',
    );
  });

  test('refuses one node twice, as an object and as an address', () => {
    const one = client(1);
    expect(messageOf(() => new Redlock([one, one, client(2)]))).toBe(
      'n0 and n1 are the same server, 127.0.0.1:1: it would vote twice.',
    );
    expect(messageOf(() => new Redlock([client(1), client(2), client(1, { host: '127.0.0.1' })]))).toBe(
      'n0 and n2 are the same server, 127.0.0.1:1: it would vote twice.',
    );
  });

  test('refuses what is no client of one node', () => {
    const wrong = {} as unknown as Redis;
    expect(messageOf(() => new Redlock(client(1) as unknown as Redis[]))).toBe(
      'Redlock needs at least one client, one for each independent Redis node.',
    );
    expect(messageOf(() => new Redlock([wrong]))).toEqual(
      expect.stringMatching(/^The client of n0 is no client that is known: /),
    );
  });

  test('warns once that an even number of nodes gains nothing', async () => {
    const warnings: Error[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on('warning', listen);
    await using nodes = await provision({ nodes: 6, sources: ['mock'] });
    for (let i = 0; i < 2; i++) await new Redlock(nodes.nodes.map((node) => node.client())).quit();
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', listen);
    expect(warnings.map(({ message }) => message)).toEqual([
      '6 nodes tolerate the failure of 2, no more than 5 would: an odd number is better.',
    ]);
  });
});

test('new Redlock cannot be given an unsound policy: it would not compile', () => {
  expect(typesAllowOnlySoundLocks).toBeTypeOf('function');
});

/** Never called: it is right if it compiles. */
function typesAllowOnlySoundLocks(nodes: Redis[], unsound: LockPolicy): void {
  const sound: RedlockSettings = { retryCount: 3, votesWanted: 'all' };
  new Redlock(nodes, sound);
  // @ts-expect-error the quorum is the majority
  new Redlock(nodes, { quorum: 2 });
  // @ts-expect-error fencing tokens are sound or absent
  new Redlock(nodes, { fencing: 'max' });
  // @ts-expect-error validity is always checked
  new Redlock(nodes, { validityCheck: 'none' });
  // @ts-expect-error a release checks the owner
  new Redlock(nodes, { releaseChecksToken: false });
  // @ts-expect-error a failed attempt is cleaned up
  new Redlock(nodes, { cleanup: 'none' });
  // @ts-expect-error the drift allowance has a fixed part
  new Redlock(nodes, { driftUs: 0 });
  // @ts-expect-error an extension needs a whole quorum, in time
  new Redlock(nodes, { extendQuorumOffset: -1, extendOnlyInTime: false });
  // @ts-expect-error no policy at all, not even by way of a variable
  new Redlock(nodes, unsound);
  const almost = { retryCount: 3, quorum: 2 };
  // @ts-expect-error nor a part of one
  new Redlock(nodes, almost);
}
