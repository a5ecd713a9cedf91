import { expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { lockFactoryOf } from './lock-factory.js';
import type { MakeLock } from './lock-under-test.js';
import { replayLibraries } from './run.js';
import { kindOf } from './search/kinds.js';
import { plan, scheduleOf } from './testing/schedules.js';

/** How a lock that nothing keeps alive says that it is lost, `afterMs` after it was acquired. */
type Says = 'by a flag' | 'by a signal' | 'by an expiration in the past';

/** A lock on one node that knows only by a timer of its own that it is lost. */
function losing(afterMs: number, says: Says): MakeLock {
  return ({ nodes: [node] }) => ({
    async acquire(resource, ttlMs) {
      if ((await node?.set(resource, 'mine', 'PX', ttlMs, 'NX')) !== 'OK') return null;
      const over = new AbortController();
      setTimeout(() => over.abort(), afterMs);
      const release = async (): Promise<void> => {
        over.abort();
      };
      if (says === 'by a signal') return { signal: over.signal, release };
      if (says === 'by a flag') {
        return {
          get isHeld() {
            return !over.signal.aborted;
          },
          release,
        };
      }
      return {
        get expiration() {
          return over.signal.aborted ? 0 : Number.POSITIVE_INFINITY;
        },
        release,
      };
    },
  });
}

async function overlap(afterMs: number, says: Says): Promise<readonly [number, number | null][]> {
  const drawn = scheduleOf([[plan(0, null)], [plan(1_200_000, 5_000_000)]]);
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const { violations } = await replayLibraries(await lockFactoryOf('a lock', losing(afterMs, says), 500), schedule);
  return violations.filter(({ kind }) => kind === 'belief').map(({ atUs, untilUs }) => [atUs, untilUs]);
}

it.each<Says>(['by a flag', 'by a signal', 'by an expiration in the past'])(
  'a lock is held until it says otherwise, %s',
  async (says) => {
    // c1 has its answer at 2 ms, and c2 at 1 202 ms.
    expect(await overlap(1_600, says)).toEqual([[1_202_000, 1_602_000]]);
    expect(await overlap(1_100, says)).toEqual([]);
  },
);

/** A lock on one node whose timer for its end is set anew by a timer that fires before it. */
const renewed: MakeLock = ({ nodes: [node] }) => ({
  async acquire(resource, ttlMs) {
    if ((await node?.set(resource, 'mine', 'PX', ttlMs, 'NX')) !== 'OK') return null;
    const over = new AbortController();
    const expiry = setTimeout(() => over.abort(), 900);
    setTimeout(() => {
      clearTimeout(expiry);
      setTimeout(() => over.abort(), 0);
    }, 500);
    return { signal: over.signal, release: async () => {} };
  },
});

it.each([
  ['before a timer could end it', renewed, 2_100_500, []],
  ['long after that', losing(9_000, 'by a signal'), 2_200_000, ['state']],
] as const)('a paused client wakes after the end of its lock, and releases it %s', async (_, make, holdUs, kinds) => {
  const faults: readonly Fault[] = [{ kind: 'pause', process: 'c1', atUs: 100_000, forUs: 2_002_000 }];
  const drawn = scheduleOf([[plan(0, holdUs)]], { faults });
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const { violations } = await replayLibraries(await lockFactoryOf('a lock', make, 500), schedule);
  expect(violations.map((it) => kindOf(it)).filter((kind) => kind === 'state')).toEqual(kinds);
});

it('asks for no extension while another one of the same lock is open', async () => {
  const asked: number[] = [];
  const make: MakeLock = ({ nodes: [node] }) => ({
    async acquire(resource, ttlMs) {
      if ((await node?.set(resource, 'mine', 'PX', ttlMs, 'NX')) !== 'OK') return null;
      const extend = async (ms: number): Promise<boolean> => {
        asked.push(ms);
        return (await node?.pexpire(resource, ms)) === 1;
      };
      return { extend, release: async () => void (await node?.del(resource)) };
    },
  });
  // An answer takes 2 ms.
  const extensions = [
    { afterUs: 100_000, ttlMs: 1_000 },
    { afterUs: 101_000, ttlMs: 10 },
    { afterUs: 103_000, ttlMs: 900 },
  ];
  const drawn = scheduleOf([[plan(0, 500_000, { extensions })]]);
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const subject = await lockFactoryOf('a lock', make, 500);
  asked.length = 0;
  const { violations } = await replayLibraries(subject, schedule);
  expect([asked, violations]).toEqual([[1_000, 900], []]);
});

it.each([
  ['says so where its extension, which was under way, makes it held again', false, [[254_000, 'margin']]],
  ['says nothing where its extension looks whether it is released', true, []],
] as const)('of a released lock it %s', async (_, looks, found) => {
  const make: MakeLock = ({ nodes: [node] }) => ({
    async acquire(resource, ttlMs) {
      if ((await node?.set(resource, 'mine', 'PX', ttlMs, 'NX')) !== 'OK') return null;
      let [untilMs, isReleased] = [Date.now() + ttlMs - 20, false];
      setTimeout(async () => {
        await node?.pexpire(resource, ttlMs);
        if (!looks || !isReleased) untilMs = Date.now() + ttlMs - 20;
      }, 250);
      return {
        isHeld: () => Date.now() < untilMs,
        async release() {
          [untilMs, isReleased] = [0, true];
          await node?.del(resource);
        },
      };
    },
  });
  // A message takes 1 ms; the extension is sent at 252 ms, and the release called 1 ms later.
  const drawn = scheduleOf([[plan(0, 251_000)]]);
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const { violations } = await replayLibraries(await lockFactoryOf('a lock', make, 500), schedule);
  expect(violations.map((it) => [it.atUs, kindOf(it)])).toEqual(found);
});
