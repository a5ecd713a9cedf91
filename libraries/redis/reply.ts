import type { Answer } from '../../core/index.js';
import { Double, Failure, MapReply, type Reply, SetReply, Status, Verbatim } from '../../wire/index.js';
import { textOf } from './bytes.js';

/** What ioredis rejects with when a server answers with an error. */
class ReplyError extends Error {
  override readonly name: string = 'ReplyError';
}

/** A reply as ioredis hands it to its user: statuses are strings; errors in an array are values. */
export function toUser(reply: Reply): unknown {
  if (typeof reply === 'string') return textOf(reply);
  if (typeof reply === 'bigint') return Number(reply);
  if (typeof reply === 'symbol') return null;
  if (reply instanceof Status || reply instanceof Double || reply instanceof Verbatim) return textOf(reply.text);
  if (reply instanceof Failure) return new ReplyError(textOf(reply.text));
  if (reply instanceof MapReply) return reply.pairs.flat().map(toUser);
  if (reply instanceof SetReply) return reply.items.map(toUser);
  return Array.isArray(reply) ? reply.map(toUser) : reply;
}

/** A reply, or as much of it as the bytes on a connection tell. */
export type LastReply = Reply | readonly LastReply[];

/**
 * How a lock takes a reply, for the votes in reports: `OK`, a positive number or a list that begins with one is yes.
 *
 * @param isInverted - It is the other way round: what was done is answered by 0, or by nothing.
 */
export function answerOf(reply: LastReply, isInverted = false): Answer {
  const answer = plainAnswerOf(reply);
  if (!isInverted || answer === 'error') return answer;
  return answer === 'yes' ? 'no' : 'yes';
}

function plainAnswerOf(reply: LastReply): Answer {
  if (reply instanceof Failure) return 'error';
  if (reply instanceof Status) return 'yes';
  if (typeof reply === 'number') return reply > 0 ? 'yes' : 'no';
  if (typeof reply === 'string') return 'yes';
  return Array.isArray(reply) ? plainAnswerOf(reply[0] ?? null) : 'no';
}
