import { Redis as IoRedis, type Redis } from 'ioredis';
import { expect, it } from 'vitest';
import type { Operation } from '../../core/index.js';
import { type Fate, type Fault, plainCluster, type Schedule } from '../../scenarios/index.js';
import { lockFactoryOf } from '../lock-factory.js';
import type { LockUnderTest, MakeLock } from '../lock-under-test.js';
import { replayLibraries } from '../run.js';
import { kindOf } from '../search/kinds.js';
import { lockOf, type Parts, RIGHT } from '../testing/blind/parts.js';
import { HandleLock } from '../testing/clients/right-locks.js';
import { plan, scheduleOf } from '../testing/schedules.js';

const LOCK = plan(0, 400_000);
const LOST_SET = { client: 'c1', operation: 'acquire', direction: 'request', lost: true } as const;

/** What one client, and one that asks after it, are told of, in words. */
async function found(
  make: MakeLock,
  faults: readonly Fault[] = [],
  fates: readonly Fate[] = [],
  lock = LOCK,
): Promise<string[]> {
  const subject = await lockFactoryOf('a lock', make, 500);
  const locks = [[lock], [plan(10_000_000, 400_000, { ttlMs: 10_000 })]];
  const { violations } = await replayLibraries(subject, scheduleOf(locks, { faults, fates, untilUs: 40_000_000 }));
  return violations.map((it) => `${kindOf(it)}: ${it.detail}`);
}

function lockWith(change: Partial<Parts>): MakeLock {
  return ({ nodes }) => lockOf(nodes, change);
}

const dies: Fault = { kind: 'client-crash', client: 'c1', atUs: 2_500 };

it('reports nothing of a right lock, whichever process dies', async () => {
  const make = lockWith({});
  expect(await found(make)).toEqual([]);
  expect(await found(make, [dies])).toEqual([]);
  expect(
    await found(
      make,
      ['n0', 'n1'].map((node) => ({ kind: 'crash', node, atUs: 0, restartAfterUs: null })),
    ),
  ).toEqual([]);
});

it('tells of a key without a TTL whose process has died between two commands', async () => {
  const take: Parts['take'] = async (node, key, token, ttl) =>
    (await node.setnx(key, token)) === 1 && (await node.pexpire(key, ttl)) === 1;
  expect(await found(lockWith({ take }))).toEqual([]);
  expect(await found(lockWith({ take }), [{ ...dies, atUs: 1_500 }])).toContain(
    'lifetime: n0 has the key of c1 for ever: it has no TTL, and the process has died',
  );
});

it('tells of a key without a TTL that its client does not delete', async () => {
  const take: Parts['take'] = async (node, key, token) => (await node.setnx(key, token)) === 1;
  expect(await found(lockWith({ take, drop: async () => {} }))).toContain(
    'lifetime: n0 has the key of c1 for ever: it has no TTL, and its client has no use for it any more',
  );
});

it('tells of a key that outlives any TTL that was asked for', async () => {
  const take: Parts['take'] = async (node, key, token, ttl) => (await node.set(key, token, 'EX', ttl, 'NX')) === 'OK';
  const [first] = await found(lockWith({ take }), [dies]);
  expect(first).toMatch(/^lifetime: n0 has the key of c1 39997 ms later still, .* 1000 ms were asked for$/);
});

it('tells of a release that changes nothing', async () => {
  const drop = (node: Redis, key: string): Promise<unknown> => node.del(`${key}:lock`);
  expect(await found(lockWith({ drop }))).toEqual([
    'leak: c1 leaves its key on n0, which carried out its release, and has the key all the same',
    'leak: c2 leaves its key on n0, which carried out its release, and has the key all the same',
  ]);
});

it('tells of no key but that of the lock, though a ticket and a sign of life of its process expire', async () => {
  const make: MakeLock = ({ nodes }) => {
    const take: Parts['take'] = async (node, key, token, ttl) => {
      await node.set(`${key}:ticket:${token}`, `ticket ${token}`, 'PX', 600);
      return RIGHT.take(node, key, token, ttl);
    };
    const inner = lockOf(nodes, { take });
    const live = (key: string): void => {
      for (const node of nodes) void node.set(`${key}:life`, `life of ${process.pid}`, 'PX', 600).catch(() => null);
    };
    return {
      async acquire(key, ttlMs) {
        const held = await inner.acquire?.(key, ttlMs);
        setTimeout(live, 10, key);
        return held;
      },
    };
  };
  expect(await found(make)).toEqual([]);
});

/** Extended so often that keys of earlier attempts expire meanwhile. */
const LONG_LOCK = plan(0, 2_300_000, {
  extensions: [600_000, 1_200_000, 1_800_000].map((afterUs) => ({ afterUs, ttlMs: 1_000 })),
});

it('tells of keys that failed attempts leave, though a later one succeeds', async () => {
  const fates = ['n1', 'n2', 'n3'].map((node): Fate => ({ ...LOST_SET, node }));
  expect(await found(lockWith({}), [], fates, LONG_LOCK)).toEqual([]);
  expect(await found(lockWith({ toClean: () => [] }), [], fates, LONG_LOCK)).toEqual([
    'leak: c1 leaves its key on n0, where it never sent a release',
  ]);
});

it('tells of a release that is rejected for no reason', async () => {
  const make: MakeLock = ({ nodes }) => {
    const inner = lockOf(nodes);
    const release = async (held: unknown): Promise<void> => {
      await (held as { release(): Promise<void> }).release();
      throw new TypeError('no such thing');
    };
    return { acquire: (resource, ttlMs) => inner.acquire?.(resource, ttlMs), release };
  };
  expect(await found(make)).toContain(
    'rejection: release of c1 is rejected with TypeError: no such thing, though it holds the lock and all nodes are in order',
  );
});

it('tells of a free lock that is not given, to one who asks alone, with a majority in order', async () => {
  const make = lockWith({ quorum: (nodes) => nodes });
  expect(await found(make)).toEqual([]);
  const dead: Fault = { kind: 'crash', node: 'n0', atUs: 0, restartAfterUs: null };
  expect(await found(make, [dead])).toEqual([
    'unavailable: c2 asks for a, which nobody has, with 4 of 5 nodes in order, and is not given it',
  ]);
  const lost = { client: 'c2', operation: 'acquire', node: 'n0', direction: 'request', lost: true } as const;
  expect(await found(make, [], [lost])).toEqual([]);
  const majority = ['n0', 'n1', 'n2'].map((node): Fault => ({ ...dead, node }));
  expect(await found(make, majority)).toEqual([]);
});

it('tells of a free lock that one asks for again and again, alone for long enough, before another asks', async () => {
  const asking: Schedule['clients'][number]['locks'] = [plan(1_000_000, 400_000, { ttlMs: 10_000 })];
  const later = (atUs: number): typeof asking => [plan(atUs, 400_000, { ttlMs: 10_000 })];
  const make = lockWith({ quorum: (nodes) => nodes, pauseMs: () => 100 });
  const foundBy = async (atUs: number, faults: readonly Fault[]): Promise<string[]> => {
    const schedule = scheduleOf([asking, later(atUs)], { faults, untilUs: 30_000_000 });
    const { violations } = await replayLibraries(await lockFactoryOf('a lock', make, 500), schedule);
    return violations.filter(({ clients }) => clients.includes('c1')).map((it) => `${kindOf(it)}: ${it.detail}`);
  };
  const dead: Fault = { kind: 'crash', node: 'n0', atUs: 0, restartAfterUs: null };
  const told = 'unavailable: c1 has asked for 18 s for a, which nobody has, with 4 of 5 nodes in order';
  expect(await foundBy(19_000_000, [dead])).toEqual([told]);
  expect(await foundBy(10_000_000, [dead])).toEqual([]);
  expect(await foundBy(19_000_000, [])).toEqual([]);
});

it('takes a lock for no free one whose SET arrives long after its attempt, and after its DEL', async () => {
  const fates = ['n0', 'n1', 'n2'].flatMap((node): Fate[] => [
    { client: 'c1', operation: 'acquire', node, direction: 'request', delayUs: 9_900_000 },
    { client: 'c1', operation: 'acquire', node, direction: 'reply', lost: true },
  ]);
  const drawn = scheduleOf([[plan(0, 400_000, { ttlMs: 4_000 })], [plan(10_000_000, 400_000)]], { fates });
  const schedule: Schedule = { ...drawn, cluster: { ...drawn.cluster, link: 'reordering' } };
  expect((await replayLibraries(await lockFactoryOf('a lock', lockWith({}), 500), schedule)).violations).toEqual([]);
});

it('takes a node for cut off that comes back from a crash meanwhile', async () => {
  const cut: Fault = {
    kind: 'partition',
    from: ['n0', 'n1', 'n2'],
    to: ['c2'],
    oneWay: false,
    atUs: 0,
    forUs: 10 ** 8,
  };
  const back: Fault = { kind: 'crash', node: 'n0', atUs: 2_000_000, restartAfterUs: 1_000 };
  expect(await found(lockWith({}), [cut, back])).toEqual([]);
});

it('tells of a lock that counts from the answers, whether anybody asks for it or not', async () => {
  const until: Parts['until'] = (_, answeredAt, ttl) => answeredAt + ttl;
  expect(await found(lockWith({ until }))).toContain(
    'margin: c1 takes its lock for held until 1002 ms, but can rely on a majority of its keys until 1000 ms only',
  );
  // At equal clocks no allowance is needed.
  expect(await found(lockWith({ until: (sentAt, _, ttl) => sentAt + ttl }))).toEqual([]);
});

it('counts an extension that comes to a node right behind the SET', async () => {
  const delayed = (node: string, operation: Operation, delayUs: number): Fate => ({
    ...{ client: 'c1', node, operation, direction: 'request', delayUs },
  });
  const late = ['n0', 'n1'].map((node) => delayed(node, 'acquire', 300_000));
  const lost: Fate = { ...LOST_SET, operation: 'extend', node: 'n2' };
  const lock = plan(0, 3_000_000, { extensions: [{ afterUs: 20_000, ttlMs: 1_000 }] });
  expect(await found(lockWith({}), [], [...late, lost], lock)).toEqual([]);
});

it('does not take a script that writes a fencing number under the lock for an extension that shortens it', async () => {
  const fence = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local known = tonumber(redis.call('get', KEYS[2]) or '0')
if known < tonumber(ARGV[2]) then redis.call('set', KEYS[2], ARGV[2]) end
return 1`;
  const take: Parts['take'] = async (node, key, token, ttl) =>
    (await RIGHT.take(node, key, token, ttl)) && (await node.eval(fence, 2, key, `${key}:fence`, token, 7)) === 1;
  const late = ['n0', 'n1', 'n2', 'n3', 'n4'].map(
    (node): Fate => ({ client: 'c1', node, operation: 'extend', direction: 'request', delayUs: 40_000 }),
  );
  expect(await found(lockWith({ take }), [], late)).toEqual([]);
});

it('counts an extension that a later one has overtaken from when that one was sent', async () => {
  const overtaken = (node: string): Fate => ({
    ...{ client: 'c1', node, operation: 'extend', send: 0, direction: 'request', delayUs: 700_000 },
  });
  const lost: Fate = { client: 'c1', node: 'n0', operation: 'extend', send: 1, direction: 'request', lost: true };
  const extensions = [
    { afterUs: 100_000, ttlMs: 1_000 },
    { afterUs: 650_000, ttlMs: 1_000 },
  ];
  const cluster = { ...plainCluster(5), link: 'reordering' } as const;
  const schedule = scheduleOf([[plan(0, 3_000_000, { extensions })]], {
    cluster,
    fates: [overtaken('n3'), overtaken('n4'), lost],
  });
  const subject = await lockFactoryOf('a lock', lockWith({}), 500);
  const { violations } = await replayLibraries(subject, schedule);
  expect(violations.map(({ detail }) => detail)).toEqual([]);
});

it('tells of a token that two processes use at once', async () => {
  const subject = await lockFactoryOf('a lock', lockWith({ token: () => 'mine' }), 500);
  const { violations } = await replayLibraries(subject, scheduleOf([[plan(0, 400_000)], [plan(100_000, 400_000)]]));
  expect(violations.map(({ detail }) => detail)).toContain('c2 acquires with the token of c1, whose lock is not over');
});

/** Waits for each node for a while as it acquires, and for ever as it releases. */
function hangs(nodes: readonly Redis[]): LockUnderTest {
  return { ...lockOf(nodes), release: (_, key) => Promise.all(nodes.map((node) => node.del(key))) };
}

it.each<[string, MakeLock, readonly Fault[], readonly Fate[]]>([
  ['nothing', ({ nodes }) => hangs(nodes), [], []],
  [
    'a process that died while it was owed an answer',
    ({ nodes }) => hangs(nodes),
    [
      { kind: 'pause', process: 'n0', atUs: 0, forUs: 3_000_000 },
      { kind: 'client-crash', client: 'c1', atUs: 1_000_000, restartAfterUs: 1_000_000 },
    ],
    [],
  ],
  [
    'releases that were kept without a connection',
    ({ addresses }) => hangs(addresses.map(({ url }) => new IoRedis(url).on('error', () => {}))),
    [
      { kind: 'crash', node: 'n0', atUs: 0, restartAfterUs: 3_000_000 },
      { kind: 'pause', process: 'n2', atUs: 4_500, forUs: 3_000_000 },
    ],
    // Its first attempt fails.
    ['n3', 'n4'].map((node): Fate => ({ ...LOST_SET, node })),
  ],
])('takes a release that waits for one node for a hang, after %s', async (_, make, faults, fates) => {
  const subject = await lockFactoryOf('a lock', make, undefined);
  const locks = [plan(0, 400_000), plan(10_000_000, 3_000_000, { ttlMs: 10_000 })];
  const silent: Fault = { kind: 'pause', process: 'n1', atUs: 12_000_000, forUs: 10 ** 12 };
  const schedule = scheduleOf([locks], { faults: [...faults, silent], fates, untilUs: 40_000_000 });
  const { violations } = await replayLibraries(subject, schedule);
  expect(subject.seen.waitsWithNodes).toBeNull();
  expect(violations.map(({ detail }) => detail)).toContain('release of c1 has not returned for 26 s: it waits for n1');
});

it('takes a client for none that hangs with its own connections, whatever time-out others have', async () => {
  const make: MakeLock = ({ addresses }) =>
    new HandleLock(addresses.map(({ url }) => new IoRedis(url).on('error', () => {})));
  const subject = await lockFactoryOf('a lock', make, 500);
  const silent: Fault = { kind: 'pause', process: 'n1', atUs: 1_000_000, forUs: 10 ** 12 };
  const schedule = scheduleOf([[plan(0, 400_000), plan(2_000_000, 400_000)]], {
    faults: [silent],
    untilUs: 30_000_000,
  });
  expect((await replayLibraries(subject, schedule)).violations).toEqual([]);
  expect(subject.seen.waitsWithNodes).toBe('acquire');
});

it('takes a client that goes on trying for no hang', async () => {
  const acquire: LockUnderTest['acquire'] = () => new Promise(() => {});
  expect(await found(() => ({ acquire, release: () => undefined }))).toContain(
    'hang: acquire of c2 has not returned for 30 s',
  );
  const trying = lockWith({ pauseMs: () => 100, take: async () => false });
  expect((await found(trying)).map((it) => it.split(':')[0])).not.toContain('hang');
  expect(RIGHT.quorum(4)).toBe(3);
});
