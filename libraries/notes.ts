import { formatCount } from '../text/format.js';
import type { Limit } from './judges/failure.js';
import type { LockFactory } from './lock-factory.js';
import type { ExpectSafeOptions } from './options.js';
import { trustsWallClock } from './wall-clock.js';

const LIMIT_NOTES: Readonly<Record<Limit, string>> = {
  'key-stays':
    'where the answer to its command is lost, its key stays until the TTL ends, and nobody gets the lock for so long: no failure ' +
    'of a lock on one node; delete the key when the command fails',
  'late-answer':
    'where the answer to its command comes after the TTL, it hands over a lock that is over: no failure of a lock on one node ' +
    'that says nothing of its time; look at the time before you return it',
};

/** What is good to know of a client that has passed. */
export async function notesOn(subject: LockFactory, { nodes = 5, replay }: ExpectSafeOptions): Promise<string[]> {
  const notes: string[] = [];
  const { waitsWithNodes, brokenOffAfter } = subject.seen;
  if (waitsWithNodes !== null)
    notes.push(
      `${waitsWithNodes} waits for as long as its connections do: where a node is silent, connections without commandTimeout ` +
        'wait for ever, and so does it',
    );
  notes.push(...[...(subject.limits ?? [])].sort().map((it) => LIMIT_NOTES[it]));
  if (brokenOffAfter > 0)
    notes.push(
      `some cases ended after ${formatCount(brokenOffAfter)} events, and are judged up to there only: the client sends ` +
        'without end, or tries again very often',
    );
  if (replay === undefined && (await trustsWallClock(subject, nodes)))
    notes.push(
      'it tells by the wall clock until when a lock is held: where somebody sets that back, a lock is held for too long; ' +
        'performance.now() cannot be set',
    );
  return notes;
}
