import { at, double, long, option, sortedSetOf } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, type Reply, SYNTAX } from '../reply.js';
import { SortedSet } from '../sorted-set.js';
import { drawFrom } from './chosen.js';
import { scanOf } from './scan.js';
import { scoreReply, withScores } from './sorted-pops.js';

const NOT_A_NUMBER = fail('resulting score is not a number (NaN)');

interface AddOptions {
  readonly words: ReadonlySet<string>;
  readonly pairs: readonly { readonly score: number; readonly member: string }[];
}

function addOptionsOf(argv: readonly string[], isIncrement: boolean): AddOptions {
  const words = new Set<string>(isIncrement ? ['incr'] : []);
  let from = 2;
  while (['nx', 'xx', 'ch', 'incr', 'gt', 'lt'].includes(option(argv, from))) words.add(option(argv, from++));
  const count = (argv.length - from) / 2;
  if (count < 1 || !Number.isInteger(count)) throw SYNTAX;
  const [nx, xx, gt, lt] = ['nx', 'xx', 'gt', 'lt'].map((word) => words.has(word));
  if (nx && xx) throw fail('XX and NX options at the same time are not compatible');
  if ((gt && nx) || (lt && nx) || (gt && lt))
    throw fail('GT, LT, and/or NX options at the same time are not compatible');
  if (words.has('incr') && count > 1) throw fail('INCR option supports a single increment-element pair');
  const pairs = Array.from({ length: count }, (_, i) => ({
    score: double(at(argv, from + 2 * i)),
    member: at(argv, from + 2 * i + 1),
  }));
  return { words, pairs };
}

/** Sets one score as the options want it; `null` where nothing is done. */
function addOne(zset: SortedSet, member: string, given: number, words: ReadonlySet<string>): number | null {
  const current = zset.score(member);
  if (current === undefined ? words.has('xx') : words.has('nx')) return null;
  const score = words.has('incr') ? (current === null || current === undefined ? given : current + given) : given;
  if (Number.isNaN(score)) throw NOT_A_NUMBER;
  if (current !== undefined && ((words.has('lt') && score >= current) || (words.has('gt') && score <= current)))
    return null;
  if (score !== current) zset.set(member, score);
  return score;
}

/** `ZADD key [options] score member …`, and `ZINCRBY key increment member`. */
const zadd =
  (isIncrement: boolean): Handler =>
  (argv, { keys, instance }) => {
    const { words, pairs } = addOptionsOf(argv, isIncrement);
    const key = at(argv, 1);
    const found = sortedSetOf(keys.find(key));
    if (found === null && words.has('xx')) return words.has('incr') ? null : 0;
    const zset = found ?? new SortedSet();
    let [added, updated, last]: [number, number, number | null] = [0, 0, null];
    for (const { score, member } of pairs) {
      const before = zset.score(member);
      last = addOne(zset, member, score, words);
      if (last === null) continue;
      if (before === undefined) added++;
      else if (before !== last) updated++;
    }
    if (added > 0) zset.grow(instance.limits.zsetEntries, instance.limits.zsetValue);
    if (found === null && zset.size > 0) keys.store(key, zset, NEVER);
    else if (added + updated > 0) keys.changed(key);
    if (words.has('incr')) return last === null ? null : scoreReply(last);
    return added + (words.has('ch') ? updated : 0);
  };

const zrem: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const zset = sortedSetOf(keys.find(key));
  if (zset === null) return 0;
  const count = argv.slice(2).filter((member) => zset.delete(member)).length;
  if (zset.size === 0) keys.remove(key);
  else if (count > 0) keys.changed(key);
  return count;
};

const zsetAt = (argv: readonly string[], { keys }: Call): SortedSet | null => sortedSetOf(keys.find(at(argv, 1)));

function scoreOf(zset: SortedSet | null, member: string): Reply {
  const score = zset?.score(member);
  return score === undefined ? null : scoreReply(score);
}

const zrank =
  (isReverse: boolean): Handler =>
  (argv, call) => {
    const zset = zsetAt(argv, call);
    const rank = zset?.rank(at(argv, 2)) ?? -1;
    if (zset === null || rank < 0) return null;
    return isReverse ? zset.size - 1 - rank : rank;
  };

const HALF_LONG = 2 ** 62;

const zrandmember: Handler = (argv, call) => {
  const { random } = call.instance;
  if (argv.length === 2) return drawFrom(zsetAt(argv, call)?.all() ?? [], -1, random)[0]?.member ?? null;
  const count = long(at(argv, 2));
  const scores = option(argv, 3) === 'withscores';
  if (argv.length > 4 || (argv.length === 4 && !scores)) throw SYNTAX;
  if (scores && Math.abs(count) > HALF_LONG) throw fail('value is out of range');
  const all = zsetAt(argv, call)?.all() ?? [];
  // Redis goes through all of them from the end.
  const drawn = count >= all.length ? all.toReversed() : drawFrom(all, count, random);
  return scores ? withScores(drawn, call.session.protocol === 3) : drawn.map(({ member }) => member);
};

const zmscore: Handler = (argv, call) => {
  const zset = zsetAt(argv, call);
  return argv.slice(2).map((member) => scoreOf(zset, member));
};

/** Commands on sorted sets, but for those on parts of them and on several at once. */
export const SORTED_SETS: Readonly<Record<string, Row>> = {
  zadd: [-4, 'wm', zadd(false), KEY],
  zcard: [2, 'r', (argv, call) => zsetAt(argv, call)?.size ?? 0, KEY],
  zincrby: [4, 'wm', zadd(true), KEY],
  zmscore: [-3, 'r', zmscore, KEY],
  zrandmember: [-2, 'r', zrandmember, KEY],
  zrank: [3, 'r', zrank(false), KEY],
  zrem: [-3, 'w', zrem, KEY],
  zrevrank: [3, 'r', zrank(true), KEY],
  zscan: [-3, 'r', scanOf('zscan'), KEY],
  zscore: [3, 'r', (argv, call) => scoreOf(zsetAt(argv, call), at(argv, 2)), KEY],
};
