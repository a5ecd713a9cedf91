import type { Answer } from '../../core/index.js';
import type { SimLock, SimNode, World } from '../../sim/index.js';
import { answerOf, type LastReply } from './reply.js';

const SCRIPTS = /^(?:eval|evalsha|fcall)$/i;

/** What a command was sent for, and where it was carried out. */
export interface Carried {
  readonly operation: string;
  readonly words: readonly string[];
  readonly isInverted: boolean;
  readonly lock: SimLock | null;
  readonly node: SimNode;
  readonly context: World['context'];
}

/**
 * How a node has voted, by its reply; see {@link answerOf}. A script that was to acquire may reply with a text, or with a list that tells
 * more than yes or no. Then it is by the key: who has that now. Where nobody has it, the reply is about something else, as what an earlier
 * call has stored, and is no vote.
 */
export function voteOf(reply: LastReply, carried: Carried): Answer {
  const { operation, words, isInverted, lock, node, context } = carried;
  const answer = answerOf(reply, isInverted);
  if (answer === 'error' || operation !== 'acquire' || isPlain(reply) || !SCRIPTS.test(words[0] ?? '')) return answer;
  const tokens = lock?.keys.map((key) => node.stored(key, context.now)).filter((it) => it !== NO_TOKEN);
  if (tokens === undefined || lock?.keys.length === 0) return answer;
  if (tokens.some((it) => context.ownerOf(it) === lock)) return 'yes';
  return tokens.length > 0 ? 'no' : 'error';
}

const NO_TOKEN = 0;

/** Whether a reply is a yes or a no, or a list that begins with one. */
function isPlain(reply: unknown): boolean {
  const [first] = Array.isArray(reply) ? reply : [undefined];
  if (Array.isArray(reply)) return first === 0 || first === 1 || first === null;
  return typeof reply !== 'string';
}
