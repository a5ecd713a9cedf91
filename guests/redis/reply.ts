/** A status reply, `+OK`. */
export class Status {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An error reply, `-ERR …`; its text begins with its code. */
export class Failure {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What a server answers: a bulk string, an integer, nil, an array, a status or an error. */
export type Reply = string | number | null | Status | Failure | readonly Reply[];

/** What `SET` answers where it has set. */
export const OK: Status = new Status('OK');

/** What ioredis rejects with when a server answers with an error. */
class ReplyError extends Error {
  override readonly name: string = 'ReplyError';
}

/** A reply as ioredis hands it to its user: statuses are strings; errors in an array are values. */
export function toUser(reply: Reply): unknown {
  if (reply instanceof Status) return reply.text;
  if (reply instanceof Failure) return new ReplyError(reply.text);
  return Array.isArray(reply) ? reply.map(toUser) : reply;
}
