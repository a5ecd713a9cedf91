import { describe, expect, it } from 'vitest';
import { readCommand, type Said } from './said.js';
import { Trial, usable } from './trial.js';

const TTL_MS = 1_000;

function saidOf(node: number, atMs: number, value = 'token', operation: Said['operation'] = 'acquire'): Said {
  const plain = { verb: 'set', key: 'a', endsByValue: false, ifNew: true, compares: false, words: [] };
  return { ...plain, operation, value, ttlMs: TTL_MS, node, atMs };
}

/** A lock that asks nodes with one token, and hears `yes` or `no` a little later. */
function trialOf(
  needed: number,
  ...asked: readonly (readonly [node: number, atMs: number, answer: 'yes' | 'no'])[]
): Trial {
  const trial = new Trial(needed);
  for (const [node, atMs, answer] of asked) {
    trial.heard(saidOf(node, atMs));
    trial.answered(node, 'acquire', answer, atMs + 1);
  }
  return trial;
}

describe('answers over one connection, which come in order', () => {
  it.each([
    ['taken back', 'token', true],
    ['given up for another token', 'another', false],
  ])('belong to the oldest try, which is none where it was %s', (_, value, isTakenBack) => {
    const [trial, connection] = [new Trial(1), {}];
    trial.heard(saidOf(0, 10), connection);
    if (isTakenBack) trial.heard(saidOf(0, 100, 'token', 'release'), connection);
    trial.heard(saidOf(0, 200, value), connection);
    trial.answered(0, 'acquire', 'yes', 900);
    expect(trial.isGranted).toBe(false);
    trial.answered(0, 'acquire', 'yes', 901);
    expect(trial.isGranted).toBe(true);
    expect(trial.value).toBe(value);
  });

  it('grant what was asked for twice with one token', () => {
    const [trial, connection] = [new Trial(1), {}];
    for (const atMs of [10, 200]) trial.heard(saidOf(0, atMs), connection);
    trial.answered(0, 'acquire', 'yes', 900);
    expect(trial.isGranted).toBe(true);
  });
});

describe('until when a lock may be relied on', () => {
  it('counts from the first of its nodes, though one was asked again later', () => {
    const trial = trialOf(2, [0, 10, 'yes'], [1, 10, 'yes'], [2, 10, 'no'], [2, 500, 'no']);
    expect(trial.isGranted).toBe(true);
    expect(trial.reliableUntil(600, TTL_MS)).toBe(10 + usable(TTL_MS));
  });

  it('counts from the further try on a node that has refused before', () => {
    const trial = trialOf(1, [0, 10, 'no'], [0, 300, 'yes']);
    expect(trial.reliableUntil(400, TTL_MS)).toBe(300 + usable(TTL_MS));
  });

  it('counts from the first of two tries where none was answered before', () => {
    const trial = new Trial(1);
    for (const atMs of [10, 300]) trial.heard(saidOf(0, atMs));
    trial.answered(0, 'acquire', 'yes', 400);
    expect(trial.reliableUntil(400, TTL_MS)).toBe(10 + usable(TTL_MS));
  });

  it('counts from the second of these where that went out over another connection', () => {
    const trial = new Trial(1);
    for (const atMs of [10, 300]) trial.heard(saidOf(0, atMs), {});
    trial.answered(0, 'acquire', 'yes', 400);
    expect(trial.reliableUntil(400, TTL_MS)).toBe(300 + usable(TTL_MS));
  });

  it('counts what a node answers that is asked again, and not what it has answered before', () => {
    const trial = trialOf(2, [2, 10, 'yes']);
    for (const node of [0, 1, 2]) trial.heard(saidOf(node, 900));
    trial.answered(0, 'acquire', 'yes', 901);
    expect(trial.isGranted).toBe(false);
    trial.answered(1, 'acquire', 'yes', 901);
    expect(trial.isGranted).toBe(true);
    expect(trial.reliableUntil(902, TTL_MS)).toBe(900 + usable(TTL_MS));
  });

  it.each(['token', 'another'])('counts from the last try where one that was granted came to nothing: %s', (value) => {
    const trial = trialOf(1, [0, 10, 'yes']);
    trial.heard(saidOf(0, 400, 'token', 'release'));
    trial.heard(saidOf(0, 900, value));
    trial.answered(0, 'acquire', 'yes', 901);
    expect(trial.reliableUntil(950, TTL_MS)).toBe(900 + usable(TTL_MS));
    trial.isHeld = true;
    trial.heard(saidOf(0, 1_500, 'a third'));
    expect(trial.reliableUntil(1_600, TTL_MS)).toBe(900 + usable(TTL_MS));
  });

  it('counts from when it was sent where the caller has heard before it was noticed here', () => {
    const trial = trialOf(2, [0, 10, 'yes'], [1, 10, 'no']);
    expect(trial.isGranted).toBe(false);
    expect(trial.reliableUntil(90, TTL_MS)).toBe(10 + usable(TTL_MS));
  });

  it('counts from what won, though a client sends what it was asked for long before after that', () => {
    const trial = trialOf(2, [1, 500, 'yes'], [2, 500, 'yes']);
    trial.heard(saidOf(0, 700, 'of a try before'));
    trial.answered(0, 'acquire', 'no', 701);
    expect(trial).toMatchObject({ isGranted: true, value: 'token' });
    expect(trial.reliableUntil(702, TTL_MS)).toBe(500 + usable(TTL_MS));
  });
});

it('does not count what is granted after it was taken back', () => {
  const trial = new Trial(1);
  trial.heard(saidOf(0, 10));
  trial.heard(saidOf(0, 260, 'token', 'release'));
  trial.answered(0, 'acquire', 'yes', 400);
  expect(trial.isGranted).toBe(false);
});

const NOW_MS = 2_000_000_000_000;
const ACQUIRES = { operation: 'acquire', keys: ['a'], value: 'token', ttlMs: 0 } as const;

it.each([
  ['SETNX a 2000000005001', 5_001, true],
  ['SET a token:2000000005000 NX', 5_000, true],
  // When it was sent is no end, nor is what follows a TTL.
  ['SETNX a token:2000000000000', null, false],
  ['SETNX a 20000000050010', null, false],
  ['SET a 2000000009000 NX PX 5000', 5_000, false],
  ['SET a 2000000009000', null, false],
])('reads what a key lives for from its value, where it has no TTL: %s', (said, ttlMs, endsByValue) => {
  expect(readCommand(said.split(' '), ACQUIRES, 0, NOW_MS)).toMatchObject({ ttlMs, endsByValue });
});
