import type { Answer } from '../../core/index.js';
import type { SimLock, SimNode, World } from '../../sim/index.js';
import { answerOf, type LastReply } from './reply.js';

const SCRIPTS = /^(?:eval|evalsha|fcall)$/i;
const NO_TOKEN = 0;

/** A command that a node has executed, and the lock that it was sent for. */
export interface Executed {
  readonly operation: string;
  readonly words: readonly string[];
  readonly isInverted: boolean;
  readonly lock: SimLock | null;
  readonly node: SimNode;
  readonly context: World['context'];
}

/**
 * How a node has voted, by its reply; see {@link answerOf}. A script that acquires may reply with a text, or with a list that tells more
 * than yes or no: then the owner of the key decides. Where there is no key, the reply is about something else, such as the result of an
 * earlier call, and is no vote.
 */
export function voteOf(reply: LastReply, executed: Executed): Answer {
  const { operation, words, isInverted, lock, node, context } = executed;
  const answer = answerOf(reply, isInverted);
  if (answer === 'error' || operation !== 'acquire' || isPlain(reply) || !SCRIPTS.test(words[0] ?? '')) return answer;
  const tokens = lock?.keys.map((key) => node.stored(key, context.now)).filter((it) => it !== NO_TOKEN);
  if (tokens === undefined || lock?.keys.length === 0) return answer;
  if (tokens.some((it) => context.ownerOf(it) === lock)) return 'yes';
  return tokens.length > 0 ? 'no' : 'error';
}

/** Whether a reply is a yes or a no, or a list that begins with one. */
function isPlain(reply: unknown): boolean {
  return Array.isArray(reply) ? [0, 1, null].includes(reply[0] ?? null) : typeof reply !== 'string';
}
