import { at, listOf, sortedSetOf } from '../arguments.js';
import type { Call, Handler, Row } from '../command.js';
import { fail, NO_REPLY, NULL_ARRAY, type Reply } from '../reply.js';
import { parseDouble } from '../text.js';
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
interface Wish {
  readonly names: readonly string[];
  readonly timeout: string;
  /** `null` as long as there is nothing. */
  readonly find: (call: Call) => Reply;
  readonly nothing: Reply;
}

/** Answers at once, or has the connection wait. */
function waitFor({ names, timeout, find, nothing }: Wish, call: Call): Reply {
  const giveUpAt = until(timeout, call);
  const found = find(call);
  if (found !== null) return found;
  if (call.isNested) return nothing;
  const { instance, session } = call;
  const retry = (): boolean => {
    const keys = instance.keyspace(session.database);
    let reply: Reply;
    try {
      reply = find({ ...call, keys });
    } catch (error) {
      // A key of another type has come: it waits on.
      void error;
      return false;
    }
    if (reply !== null) instance.push(session, reply);
    return reply !== null;
  };
  const giveUp = (): void => instance.push(session, nothing);
  instance.wait(session, { database: session.database, keys: names, until: giveUpAt, retry, giveUp });
  return NO_REPLY;
}

const blockingPop =
  (side: Side): Handler =>
  (argv, call) => {
    const names = argv.slice(1, -1);
    const find = (it: Call): Reply => {
      for (const name of names) {
        if (listOf(it.keys.find(name)) !== null) return [name, ...pop(name, side, 1, it)];
      }
      return null;
    };
    return waitFor({ names, timeout: at(argv, argv.length - 1), find, nothing: NULL_ARRAY }, call);
  };

function blockingMove(argv: readonly string[], sides: readonly [Side, Side], call: Call): Reply {
  const [from, to] = [at(argv, 1), at(argv, 2)];
  const find = (it: Call): Reply => moveElement(from, to, sides, it);
  return waitFor({ names: [from], timeout: at(argv, argv.length - 1), find, nothing: null }, call);
}

const blockingScored =
  (side: 'min' | 'max'): Handler =>
  (argv, call) => {
    const names = argv.slice(1, -1);
    const find = (it: Call): Reply => {
      for (const name of names) {
        if (sortedSetOf(it.keys.find(name)) === null) continue;
        const [first] = popScored(name, side, 1, it);
        if (first !== undefined) return [name, first.member, scoreReply(first.score)];
      }
      return null;
    };
    return waitFor({ names, timeout: at(argv, argv.length - 1), find, nothing: NULL_ARRAY }, call);
  };

const blockingSeveral =
  (sides: readonly string[], find: (several: Several, call: Call) => Reply): Handler =>
  (argv, call) => {
    const several = severalAt(argv, 2, sides);
    const { names } = several;
    return waitFor({ names, timeout: at(argv, 1), find: (it) => find(several, it), nothing: NULL_ARRAY }, call);
  };

/** Commands that wait for a list or a sorted set. */
export const BLOCKING: Readonly<Record<string, Row>> = {
  blmove: [6, 'wms', (argv, call) => blockingMove(argv, [sideAt(argv, 3), sideAt(argv, 4)], call), [1, 2, 1]],
  blmpop: [-5, 'w', blockingSeveral(['left', 'right'], popFirst)],
  blpop: [-3, 'ws', blockingPop('left'), [1, -2, 1]],
  brpop: [-3, 'ws', blockingPop('right'), [1, -2, 1]],
  brpoplpush: [4, 'wms', (argv, call) => blockingMove(argv, ['right', 'left'], call), [1, 2, 1]],
  bzmpop: [-5, 'w', blockingSeveral(['min', 'max'], popScoredFirst)],
  bzpopmax: [-3, 'ws', blockingScored('max'), [1, -2, 1]],
  bzpopmin: [-3, 'ws', blockingScored('min'), [1, -2, 1]],
};
