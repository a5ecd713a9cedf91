import { expect, test, vi } from 'vitest';
import { localTime } from '../core/index.js';
import { QueueEvent } from '../sim/queue.js';
import { type LibraryTimer, ProcessTimers } from './process-timers.js';

const NOW = localTime(0);

function withLog(): { readonly timers: ProcessTimers; readonly pushed: LibraryTimer[] } {
  const pushed: LibraryTimer[] = [];
  const timers = new ProcessTimers((timer) => {
    pushed.push(timer);
    return new QueueEvent();
  });
  return { timers, pushed };
}

test('a timer that was cancelled keeps nothing of what it was set for, though its event is still in the queue', () => {
  const { timers } = withLog();
  const callback = vi.fn();
  const timer = timers.set(callback, NOW, 300_000, false);
  timer.cancel();
  expect(timer.event).toBeNull();
  expect(Object.values(timer)).not.toContain(callback);
  timer.callback();
  expect(callback).not.toHaveBeenCalled();
});

test.each([[[0]], [[1]], [[2]], [[0, 1]], [[2, 0]], [[1, 1]], [[0, 1, 2]]])(
  'when a clock changes, those that are not cancelled are due again, in the order in which they were set: without %j',
  (cancelled) => {
    const { timers, pushed } = withLog();
    const all = [1, 2, 3].map((ms) => timers.set(() => {}, NOW, 1_000 * ms, false));
    for (const at of cancelled) all[at]?.cancel();
    pushed.length = 0;
    timers.rearm();
    const left = all.filter((_, at) => !cancelled.includes(at));
    expect(pushed).toEqual(left);
    expect(all.map(({ id }) => timers.of(id))).toEqual(all.map((it) => (left.includes(it) ? it : undefined)));
  },
);

test('one that repeats goes on until it is cancelled, also by itself; any other is over once it has fired', () => {
  const { timers, pushed } = withLog();
  const once = timers.set(() => {}, NOW, 1_000, false);
  timers.fire(once, localTime(1_000));
  expect(timers.of(once.id)).toBeUndefined();
  let calls = 0;
  const again = timers.set(() => ++calls === 2 && again.cancel(), NOW, 1_000, true);
  for (const at of [1_000, 2_000]) timers.fire(again, localTime(at));
  expect([calls, again.event, timers.of(again.id)]).toEqual([2, null, undefined]);
  pushed.length = 0;
  timers.rearm();
  expect(pushed).toEqual([]);
});

test('a process that is dead has no timers', () => {
  const { timers, pushed } = withLog();
  const timer = timers.set(() => {}, NOW, 1_000, false);
  timers.clear();
  pushed.length = 0;
  timer.cancel();
  timers.rearm();
  expect([timer.event, timers.of(timer.id), pushed]).toEqual([null, undefined, []]);
});
