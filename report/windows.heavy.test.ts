import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { judge } from '../properties/judge.js';
import type { TraceWindow } from './payload.js';
import { snapshotOf } from './run-snapshot.js';
import { longSchedule } from './testing/long-run.js';
import { partOf, WINDOW, windowsOf } from './windows.js';

const schedule = longSchedule(280);
const judgement = judge(schedule, [], true);
const taken = snapshotOf(schedule, judgement);
const windows = [...windowsOf(taken)];

test('the windows of a run are all of it, once', () => {
  expect(windows.length).toBe(Math.ceil(taken.events.length / WINDOW));
  expect(windows.flatMap(({ events }) => events)).toEqual(taken.events);
});

test('a window knows what led to its events, and which keys were there when it began', () => {
  for (const { carried, events, fromSeq } of windows) {
    const known = new Set([...carried, ...events].map(({ seq }) => seq));
    expect(events.filter(({ cause }) => cause >= 0 && !known.has(cause))).toEqual([]);
    expect(carried.every(({ seq }) => seq < fromSeq)).toBe(true);
    const keys = new Set(carried.filter(({ kind }) => kind === 'key-set').map(({ process }) => process));
    for (const { kind, process } of events) {
      // The first thing that befalls a key tells whether there was one.
      if (kind === 'key-gone') expect(keys.has(process)).toBe(true);
      if (kind === 'key-set') keys.add(process);
    }
  }
});

test('claims and letters of tokens are those of the whole run', () => {
  const names = new Map(taken.names);
  const claims = new Set(windows.flatMap((window) => window.claims.map(({ seq }) => seq)));
  expect(claims.size).toBe(taken.claims.length);
  for (const window of windows) for (const [token, name] of window.names) expect(names.get(token)).toBe(name);
});

test('each window can be read from its place in the file, and the file as a whole', () => {
  const { part, data } = partOf(taken, judgement.run.hash, 'long.trace');
  if (data === null || part.beside === null) throw new Error('a name was given');
  expect(part.beside.name).toBe('long.trace');
  for (const [index, { at, bytes, fromSeq }] of part.beside.places.entries()) {
    const [head, ...lines] = gunzipSync(data.subarray(at, at + bytes))
      .toString()
      .trimEnd()
      .split('\n');
    const { carried } = JSON.parse(head ?? '') as TraceWindow;
    expect(carried).toEqual(windows[index]?.carried);
    expect(JSON.parse(lines[0] ?? '').seq).toBe(fromSeq);
  }
  const all = gunzipSync(data).toString().trimEnd().split('\n');
  expect(all).toHaveLength(taken.events.length + windows.length);
});

test('the window that is shown first is the one in which something goes wrong', () => {
  const wrong = { ...taken, outages: [{ fromUs: 200_000_000, toUs: 200_000_001, reason: 'no-quorum-up' as const }] };
  const { shown, part } = partOf(wrong, '', null);
  expect(part.beside).toBeNull();
  const [seq = -1] = part.wrong;
  expect(taken.events[seq]?.atUs).toBeLessThanOrEqual(200_000_000);
  expect(taken.events[seq + 1]?.atUs).toBeGreaterThan(200_000_000);
  expect(shown.events.some((event) => event.seq === seq)).toBe(true);
  expect(partOf(taken, '', null).shown.events.at(-1)).toEqual(taken.events.at(-1));
});
