/**
 * A fixed calibration for the engine's speed: pop and push on a binary heap of 16 fresh objects, the least that a
 * discrete-event simulator has to do per event. It is not the engine's queue and never changes with it.
 */
export function popAndPushPerSecond(rounds: number, clock: () => number): number {
  const heap: Entry[] = [];
  let state = 12345;
  const next = (): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state & 0xffff;
  };
  for (let i = 0; i < 16; i++) push(heap, { at: next(), seq: i });
  let checksum = 0;
  const began = clock();
  for (let i = 0; i < rounds; i++) {
    const first = pop(heap);
    checksum ^= first.seq;
    push(heap, { at: first.at + 1 + next(), seq: i });
  }
  const seconds = (clock() - began) / 1000;
  if (checksum === -1) throw new Error('cannot happen; keeps the loop from being optimised away');
  return rounds / seconds;
}

interface Entry {
  readonly at: number;
  readonly seq: number;
}

function before(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.seq < b.seq);
}

function push(heap: Entry[], entry: Entry): void {
  let hole = heap.length;
  heap.push(entry);
  while (hole > 0) {
    const parent = (hole - 1) >> 1;
    const above = heap[parent] as Entry;
    if (!before(entry, above)) break;
    heap[hole] = above;
    hole = parent;
  }
  heap[hole] = entry;
}

function pop(heap: Entry[]): Entry {
  const first = heap[0] as Entry;
  const last = heap.pop() as Entry;
  const { length } = heap;
  if (length === 0) return first;
  let hole = 0;
  for (let child = 1; child < length; child = 2 * hole + 1) {
    if (child + 1 < length && before(heap[child + 1] as Entry, heap[child] as Entry)) child++;
    if (!before(heap[child] as Entry, last)) break;
    heap[hole] = heap[child] as Entry;
    hole = child;
  }
  heap[hole] = last;
  return first;
}
