import { at, positive, sortedSetOf } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { Double, NULL_ARRAY, type Reply, SYNTAX } from '../reply.js';
import type { Scored } from '../sorted-set.js';
import { formatDouble } from '../text.js';
import { type Several, severalAt } from './lists.js';

/** A score in a reply. */
export function scoreReply(score: number): Reply {
  return new Double(formatDouble(score));
}

/** Takes members with the lowest or the highest scores off a sorted set that is there. */
export function popScored(key: string, side: 'min' | 'max', count: number, { keys }: Call): readonly Scored[] {
  const zset = sortedSetOf(keys.find(key));
  if (zset === null) return [];
  const taken = side === 'min' ? zset.slice(0, count) : zset.slice(Math.max(0, zset.size - count), zset.size);
  for (const { member } of taken) zset.delete(member);
  if (zset.size === 0) keys.remove(key);
  else if (taken.length > 0) keys.changed(key);
  return side === 'min' ? taken : [...taken].reverse();
}

/** What `ZMPOP` takes off the first sorted set that is there, or `null`. */
export function popScoredFirst({ names, where, count }: Several, call: Call): Reply {
  for (const name of names) {
    if (sortedSetOf(call.keys.find(name)) === null) continue;
    const taken = popScored(name, where === 'min' ? 'min' : 'max', count, call);
    return [name, taken.map(({ member, score }) => [member, scoreReply(score)])];
  }
  return null;
}

const zpop =
  (side: 'min' | 'max'): Handler =>
  (argv, call) => {
    if (argv.length > 3) throw SYNTAX;
    const count = argv.length === 3 ? positive(at(argv, 2)) : null;
    const taken = popScored(at(argv, 1), side, count ?? 1, call);
    return withScores(taken, call.session.protocol === 3 && count !== null);
  };

/** Members and scores: in one list, or as pairs. */
export function withScores(items: readonly Scored[], asPairs: boolean): Reply {
  const pairs = items.map(({ member, score }): readonly Reply[] => [member, scoreReply(score)]);
  return asPairs ? pairs : pairs.flat();
}

const zmpop: Handler = (argv, call) => popScoredFirst(severalAt(argv, 1, ['min', 'max']), call) ?? NULL_ARRAY;

/** Commands that take members off sorted sets, and never wait. */
export const SORTED_POPS: Readonly<Record<string, Row>> = {
  zmpop: [-4, 'w', zmpop],
  zpopmax: [-2, 'w', zpop('max'), KEY],
  zpopmin: [-2, 'w', zpop('min'), KEY],
};
