import { describe, expect, it } from 'vitest';
import { EventKind, Queue, rankOf, TieRank, waitedRank } from './queue.js';
import { type RandomStream, RandomStreams } from './random.js';
import { trueTime } from './time.js';

/** Puts an event in; `name` is found again in its `index`. */
function push(queue: Queue, at: number, rank: number, name: number): void {
  const event = queue.blank(EventKind.timer, trueTime(at), rank, null, {});
  event.index = name;
  queue.push(event);
}

/** Takes everything out. */
function drained(queue: Queue): number[] {
  const names: number[] = [];
  for (let event = queue.pop(); event !== undefined; event = queue.pop()) {
    names.push(event.index);
    queue.recycle(event);
  }
  return names;
}

describe('the queue', () => {
  it('is empty at first and after all was taken', () => {
    const queue = new Queue();
    expect(queue.pop()).toBeUndefined();
    push(queue, 1, 0, 7);
    expect(drained(queue)).toEqual([7]);
    expect(queue.pop()).toBeUndefined();
  });

  it('gives events by time, then class, then order', () => {
    const queue = new Queue();
    push(queue, 5, rankOf(TieRank.before, 9), 6);
    push(queue, 4, rankOf(TieRank.after, 0), 5);
    push(queue, 4, rankOf(TieRank.timer, 1), 4);
    push(queue, 4, rankOf(TieRank.timer, 0), 3);
    push(queue, 4, rankOf(TieRank.call, 2 ** 27 - 1), 2);
    push(queue, 4, rankOf(TieRank.delivery, 3), 1);
    push(queue, 4, rankOf(TieRank.before, 8), 0);
    expect(drained(queue)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  it('is a sort, whatever goes in when', () => {
    const draw: RandomStream = new RandomStreams('queue').stream(0, 0);
    const queue = new Queue();
    const waiting: { at: number; rank: number; name: number }[] = [];
    for (let round = 0; round < 200; round++) {
      for (let i = draw.below(12); i > 0; i--) {
        const item = { at: draw.below(20), rank: round * 12 + i, name: round * 12 + i };
        waiting.push(item);
        push(queue, item.at, item.rank, item.name);
      }
      waiting.sort((a, b) => a.at - b.at || a.rank - b.rank);
      for (let i = draw.below(12); i > 0; i--) {
        const event = queue.pop();
        expect(event?.index).toBe(waiting.shift()?.name);
        if (event !== undefined) queue.recycle(event);
      }
    }
    expect(drained(queue)).toEqual(waiting.map((item) => item.name));
  });

  it('is a sort of thousands too, also of those that come in between', () => {
    const draw: RandomStream = new RandomStreams('long queue').stream(0, 0);
    const queue = new Queue();
    const items = Array.from({ length: 3_000 }, (_, name) => ({ at: draw.below(500), rank: draw.below(9_000), name }));
    for (const { at, rank, name } of items.slice(0, 2_000)) push(queue, at, 3_000 * rank + name, name);
    const early = Array.from({ length: 500 }, () => queue.pop()?.index);
    const sorted = items.slice(0, 2_000).sort((a, b) => a.at - b.at || a.rank - b.rank || a.name - b.name);
    expect(early).toEqual(sorted.slice(0, 500).map(({ name }) => name));
    for (const { at, rank, name } of items.slice(2_000)) push(queue, at, 3_000 * rank + name, name);
    const rest = [...sorted.slice(500), ...items.slice(2_000)];
    rest.sort((a, b) => a.at - b.at || a.rank - b.rank || a.name - b.name);
    expect(drained(queue)).toEqual(rest.map(({ name }) => name));
  });
});

describe('an event that waits for a frozen process', () => {
  it('goes ahead of its class, behind the classes before', () => {
    const waited = waitedRank(rankOf(TieRank.call, 17), 1_000, false);
    expect(waited).toBeGreaterThan(rankOf(TieRank.delivery, 2 ** 27 - 1));
    expect(waited).toBeLessThan(rankOf(TieRank.call, 0));
  });

  it('keeps the place of its first arrival when it has to wait again', () => {
    const first = waitedRank(rankOf(TieRank.delivery, 9), 20, false);
    const second = waitedRank(rankOf(TieRank.delivery, 8), 21, false);
    expect(first).toBeLessThan(second);
    for (const timersFirst of [false, true]) expect(waitedRank(first, 22, timersFirst)).toBe(first);
  });

  it('that is a timer goes ahead of deliveries if so asked, behind faults, and keeps that place', () => {
    const timer = waitedRank(rankOf(TieRank.timer, 9), 20, true);
    const next = waitedRank(rankOf(TieRank.timer, 8), 21, true);
    const delivery = waitedRank(rankOf(TieRank.delivery, 3), 2, true);
    expect([rankOf(TieRank.before, 50_000), timer, next, delivery]).toEqual(
      [timer, next, delivery, rankOf(TieRank.before, 50_000)].sort((a, b) => a - b),
    );
    for (const timersFirst of [false, true]) expect(waitedRank(timer, 30, timersFirst)).toBe(timer);
  });
});
