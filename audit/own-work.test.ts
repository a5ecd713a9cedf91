import { expect, it } from 'vitest';
import { as, type ProcessContext } from '../libraries/runtime/owner.js';
import { endingSignal, getsLock } from './own-work.js';
import type { Said } from './said.js';
import { Trial } from './trial.js';
import { unknownValue } from './unknown.js';

const process = { name: 'c1' } as unknown as ProcessContext;
const SET = {
  verb: 'set',
  key: 'a',
  ifNew: true,
  operation: 'acquire',
  value: 'token',
  ttlMs: 1_000,
  node: 0,
  atMs: 0,
};

function granted(): Trial {
  const trial = new Trial(1);
  trial.heard(SET as unknown as Said);
  trial.answered(0, 'acquire', 'yes', 2_000);
  return trial;
}

/** What a function has that is granted a lock of which nothing is left, and then does this. */
async function afterGrant(goesOn: (trial: Trial) => void): Promise<boolean> {
  const trial = granted();
  let end = (): void => {};
  const done = new Promise<void>((resolve) => {
    end = resolve;
  });
  const got = getsLock(trial, process, done, () => true);
  await new Promise((resolve) => setImmediate(resolve));
  goesOn(trial);
  await new Promise((resolve) => setImmediate(resolve));
  end();
  return got;
}

it('has a lock of which nothing is left only if it works', async () => {
  const work = unknownValue() as () => void;
  expect(await afterGrant(() => as(process, work))).toBe(true);
  expect(await afterGrant((trial) => trial.onEnd?.())).toBe(false);
  expect(await afterGrant(() => {})).toBe(false);
  // The work of another process.
  expect(await afterGrant(() => as({ name: 'c2' } as unknown as ProcessContext, work))).toBe(false);
});

it('has no lock that it releases as its last answer comes, and waits for no work then', async () => {
  const trial = granted();
  trial.endedMs = 2_000;
  const done = new Promise<void>((resolve) => {
    trial.kept = { connections: new Set(), sends: [resolve] };
  });
  const later = new Promise((resolve) => setImmediate(() => resolve('it waits')));
  expect(await Promise.race([getsLock(trial, process, done, () => true), later])).toBe(false);
});

it('has any other lock as soon as it is granted', async () => {
  expect(await getsLock(granted(), process, new Promise(() => {}), () => false)).toBe(true);
});

it('has a lock of which nothing is left only if it does what counts', async () => {
  const trial = granted();
  const work = unknownValue({}, 'a', 'store') as Record<string, () => void>;
  const got = getsLock(
    trial,
    process,
    new Promise((resolve) => setTimeout(resolve, 20)),
    () => true,
    (name) => name === 'store.save',
  );
  await new Promise((resolve) => setImmediate(resolve));
  as(process, () => work.due?.());
  expect(await got).toBe(false);
});

it('ends a loop that nothing but its signal ends', async () => {
  const signal = endingSignal();
  let rounds = 0;
  const ended = new Promise((resolve) => signal.addEventListener('abort', resolve));
  while (!signal.aborted && rounds < 10_000) rounds++;
  await ended;
  expect(rounds).toBe(499);
  expect(signal.aborted).toBe(true);
});
