import { at, listOf, sortedSetOf } from '../arguments.js';
import type { Call, Handler, Row } from '../command.js';
import { Failure, fail, NO_REPLY, NULL_ARRAY, type Reply } from '../reply.js';
import { SortedSet } from '../sorted-set.js';
import { parseDouble } from '../text.js';
import { List, type Stream } from '../values.js';
import { moveElement, pop, popFirst, type Several, type Side, severalAt, sideAt } from './lists.js';
import { popScored, popScoredFirst, scoreReply } from './sorted-pops.js';

const MAX_TIMEOUT_MS = 2 ** 63 - 1;

/** When a time-out in seconds is over, µs of the node's clock. */
function until(text: string, { instance }: Call): number {
  const seconds = parseDouble(text);
  if (seconds === null) throw fail('timeout is not a float or out of range');
  const ms = Math.ceil(seconds * 1000);
  if (ms > MAX_TIMEOUT_MS) throw fail('timeout is out of range');
  if (ms < 0) throw fail('timeout is negative');
  return ms === 0 ? Number.POSITIVE_INFINITY : instance.nowUs + ms * 1000;
}

/** What a command that may wait finds, and what it answers when its time is over. */
export interface Wish {
  readonly names: readonly string[];
  /** What it takes from: it waits on while a key holds something else. */
  readonly source: typeof List | typeof SortedSet | typeof Stream;
  /** When it gives up, µs of the node's clock. */
  readonly untilUs: number;
  /** What the first of the keys has for it, `null` as long as there is nothing. */
  readonly find: (names: readonly string[], call: Call) => Reply;
  readonly nothing: Reply;
}

/** Answers at once, or has the connection wait. */
export function waitFor({ names, source, untilUs, find, nothing }: Wish, call: Call): Reply {
  const found = find(names, call);
  if (found !== null) return found;
  if (call.isNested) return nothing;
  const { instance, session } = call;
  const retry = (key: string): boolean => {
    const keys = instance.keyspace(session.database);
    if (!(keys.find(key)?.value instanceof source)) return false;
    const later = attempt(() => find([key], { ...call, keys }));
    if (later !== null) instance.push(session, later);
    return later !== null;
  };
  const giveUp = (): void => instance.push(session, nothing);
  instance.wait(session, { database: session.database, keys: names, until: untilUs, retry, giveUp });
  return NO_REPLY;
}

/** Does something, or says why not: what it would move to is of another type. */
function attempt(work: () => Reply): Reply {
  try {
    return work();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

const blockingPop =
  (side: Side): Handler =>
  (argv, call) => {
    const names = argv.slice(1, -1);
    const find = (from: readonly string[], it: Call): Reply => {
      for (const name of from) {
        if (listOf(it.keys.find(name)) !== null) return [name, ...pop(name, side, 1, it)];
      }
      return null;
    };
    return waitFor(
      { names, source: List, untilUs: until(at(argv, argv.length - 1), call), find, nothing: NULL_ARRAY },
      call,
    );
  };

function blockingMove(argv: readonly string[], sides: readonly [Side, Side], call: Call): Reply {
  const [from, to] = [at(argv, 1), at(argv, 2)];
  const find = (_: readonly string[], it: Call): Reply => moveElement(from, to, sides, it);
  return waitFor(
    { names: [from], source: List, untilUs: until(at(argv, argv.length - 1), call), find, nothing: null },
    call,
  );
}

const blockingScored =
  (side: 'min' | 'max'): Handler =>
  (argv, call) => {
    const names = argv.slice(1, -1);
    const find = (from: readonly string[], it: Call): Reply => {
      for (const name of from) {
        if (sortedSetOf(it.keys.find(name)) === null) continue;
        const [first] = popScored(name, side, 1, it);
        if (first !== undefined) return [name, first.member, scoreReply(first.score)];
      }
      return null;
    };
    return waitFor(
      { names, source: SortedSet, untilUs: until(at(argv, argv.length - 1), call), find, nothing: NULL_ARRAY },
      call,
    );
  };

const blockingSeveral =
  (sides: readonly string[], source: Wish['source'], popFrom: (several: Several, call: Call) => Reply): Handler =>
  (argv, call) => {
    const several = severalAt(argv, 2, sides);
    const find = (names: readonly string[], it: Call): Reply => popFrom({ ...several, names }, it);
    return waitFor(
      { names: several.names, source, untilUs: until(at(argv, 1), call), find, nothing: NULL_ARRAY },
      call,
    );
  };

/** Commands that wait for a list or a sorted set. */
export const BLOCKING: Readonly<Record<string, Row>> = {
  blmove: [6, 'wms', (argv, call) => blockingMove(argv, [sideAt(argv, 3), sideAt(argv, 4)], call), [1, 2, 1]],
  blmpop: [-5, 'w', blockingSeveral(['left', 'right'], List, popFirst)],
  blpop: [-3, 'ws', blockingPop('left'), [1, -2, 1]],
  brpop: [-3, 'ws', blockingPop('right'), [1, -2, 1]],
  brpoplpush: [4, 'wms', (argv, call) => blockingMove(argv, ['right', 'left'], call), [1, 2, 1]],
  bzmpop: [-5, 'w', blockingSeveral(['min', 'max'], SortedSet, popScoredFirst)],
  bzpopmax: [-3, 'ws', blockingScored('max'), [1, -2, 1]],
  bzpopmin: [-3, 'ws', blockingScored('min'), [1, -2, 1]],
};
