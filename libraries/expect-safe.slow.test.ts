import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CheckThenSet } from '../examples/custom-lock/my-lock.js';
import { EIGHT_STYLES } from './testing/clients/eight-styles.js';
import {
  type Asked,
  AskedLock,
  HandleLock,
  OneNodeLock,
  routineLock,
  tokenLock,
} from './testing/clients/right-locks.js';
import { WrongLock } from './testing/clients/wrong-lock.js';
import { caught, demanding } from './testing/expecting.js';
import { type ExpectSafeOptions, expectSafe, type MakeLock, type TestBed, UnsafeLockError } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));
const options = { ...demanding, reportTo };
const broken = ({ nodes }: TestBed) => new WrongLock(nodes);

describe('expectSafe', () => {
  it.each([
    ['handles', HandleLock],
    ['tokens and callbacks', tokenLock],
    ['routines', routineLock],
  ])('lets a right one pass: %s', async (_, make) => {
    const result = await expectSafe(
      ({ nodes }) => (make === HandleLock ? new HandleLock(nodes) : (make as typeof tokenLock)(nodes)),
      options,
    );
    expect(result.runs).toBe(25);
    expect(result.claims).toBeGreaterThan(20);
  });

  it.each<Asked>(['isValid', 'isHeld', 'isExpired', 'get isHeld'])(
    'lets one pass that looks at the time only when it is asked: %s',
    async (asked) => {
      const result = await expectSafe(({ nodes }) => new AskedLock(nodes, asked), options);
      expect(result.claims).toBeGreaterThan(20);
    },
  );

  it.each<Asked>(['isValid', 'isHeld', 'isExpired', 'get isHeld'])(
    'catches one that says too long that it is held, though nothing happens when that is over: %s',
    async (asked) => {
      const error = await caught(expectSafe(({ nodes }) => new AskedLock(nodes, asked, 110), { runs: 25, reportTo }));
      expect(error).toMatchObject({ kind: 'belief', violation: { property: 'mutual-exclusion' } });
    },
  );

  it('does not accuse a client that counts by a monotonic clock where a wall clock is set, and does one by that', async () => {
    const steps = { faults: { wallStep: 2 }, runs: 40, seed: 'steps', reportTo };
    expect((await expectSafe(({ nodes }) => new HandleLock(nodes), steps)).runs).toBe(40);
    const error = await caught(expectSafe(({ nodes }) => tokenLock(nodes), steps));
    expect(error.message).toContain('wall clock jumps');
  });

  it('does not count a lock as held while its process is paused and cannot learn that it has ended', async () => {
    const pauses = { faults: { pause: 2 }, runs: 60, reportTo };
    expect((await expectSafe(({ nodes }) => routineLock(nodes), pauses)).runs).toBe(60);
    const error = await caught(expectSafe(({ nodes }) => routineLock(nodes, 3_000), pauses));
    expect(error).toBeInstanceOf(UnsafeLockError);
  });

  it('does not either where the timer that says so is set again as the process wakes', async () => {
    const watchdog = EIGHT_STYLES.find(({ style }) => style.includes('watchdog'))?.make as MakeLock;
    const { runs } = await expectSafe(watchdog, { faults: { pause: 2 }, runs: 200, reportTo });
    expect(runs).toBe(200);
  });

  it('goes through all that a lock has to withstand where no faults are named, and a right one passes', async () => {
    const makes = [
      ({ nodes }: TestBed) => new HandleLock(nodes),
      ({ nodes }: TestBed) => new AskedLock(nodes, 'isValid'),
      ({ nodes }: TestBed) => tokenLock(nodes),
      ({ nodes }: TestBed) => routineLock(nodes),
    ];
    for (const make of makes) {
      const { classes } = await expectSafe(make, { runs: 42, reportTo });
      expect(Object.keys(classes)).toHaveLength(21);
      expect(classes).toMatchObject({ drift: 2, 'two-tasks': 4, 'minority-mute': 1, 'all-at-once': 1 });
    }
  });

  it.each<[string, MakeLock, ExpectSafeOptions]>([
    ['deletes what is not its own', broken, {}],
    ['says too long that it is held', ({ nodes }) => new AskedLock(nodes, 'isHeld', 5_000), {}],
    ['looks before it sets', ({ nodes: [node] }) => new CheckThenSet(node), { nodes: 1 }],
  ])('finds what is wrong where no faults are named: one that %s', async (_, make, chosen) => {
    expect(await caught(expectSafe(make, { ...chosen, reportTo }))).toBeInstanceOf(UnsafeLockError);
  });

  it('notes that a case was broken off whose client sends without end', async () => {
    const restless = ({ nodes }: TestBed) => {
      setInterval(() => void nodes[0]?.get('else').catch(() => {}), 1);
      return new HandleLock(nodes);
    };
    const { notes } = await expectSafe(restless, { runs: 1 });
    expect(notes).toContainEqual(expect.stringMatching(/^some cases ended after 20.000 events, and are judged up to/));
  });

  it('has clients write where it is asked for effects, and blames a pause that is longer than the lock', async () => {
    const pauses = { nodes: 1, faults: { pause: 2 }, runs: 40, reportTo };
    const one = ({ nodes: [node] }: TestBed) => new OneNodeLock(node);
    const unwritten = await expectSafe(one, { ...pauses, kinds: ['belief', 'state', 'acquisition', 'signal'] });
    expect(unwritten.untested).toEqual(['signal']);
    const error = await caught(expectSafe(one, { ...pauses, kinds: ['effect'] }));
    expect(error.message).toMatch(/^the lock is not safe \(kind effect, property no stale write\)\n/);
    expect(error.message).toMatch(/was frozen from [\d\s.]+\s+to\s+[\d\s.]+, between its check and the write/);
  });
});
