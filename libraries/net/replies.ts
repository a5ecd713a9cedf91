import { Failure, Status } from '../../wire/index.js';
import { textOf } from '../redis/bytes.js';

/** A reply, as far as it matters here: what RESP3 marks in another way is told as in RESP2. */
export type ReadReply = string | number | null | Status | Failure | readonly ReadReply[];

/** Reads one reply at this place, and says where the next begins; `null` as long as it is not whole. Bytes are Latin-1. */
export function replyAt(bytes: string, at: number): readonly [ReadReply, number] | null {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return null;
  const [mark, line, next] = [bytes[at], bytes.slice(at + 1, end), end + 2];
  switch (mark) {
    case '-':
      return [new Failure(line), next];
    case ':':
      return [Number(line), next];
    case '#':
      return [line === 't' ? 1 : 0, next];
    case '_':
      return [null, next];
    case '$':
    case '=': {
      if (line === '-1') return [null, next];
      const last = next + Number(line);
      return bytes.length < last + 2 ? null : [bytes.slice(next, last), last + 2];
    }
    case '*':
    case '~':
    case '>':
    case '%':
      return line === '-1' ? [null, next] : listAt(bytes, next, (mark === '%' ? 2 : 1) * Number(line));
    default:
      return [new Status(line), next];
  }
}

function listAt(bytes: string, at: number, count: number): readonly [ReadReply, number] | null {
  const items: ReadReply[] = [];
  let from = at;
  for (let i = 0; i < count; i++) {
    const item = replyAt(bytes, from);
    if (item === null) return null;
    items.push(item[0]);
    from = item[1];
  }
  return [items, from];
}

/** The last of these replies, which are whole; an error where there is none. */
export function lastOf(bytes: string): ReadReply {
  let last: ReadReply = new Failure('no reply');
  for (let read = replyAt(bytes, 0); read !== null; read = replyAt(bytes, read[1])) last = read[0];
  return last;
}

/** What JSON has for a reply. @param base64 - Strings are told so, but for `OK`. */
export function jsonOf(reply: ReadReply, base64: boolean): unknown {
  if (typeof reply === 'string') return stringOf(reply, base64);
  if (reply instanceof Status) return reply.text === 'OK' ? 'OK' : stringOf(reply.text, base64);
  if (reply instanceof Failure) return reply.text;
  return isList(reply) ? reply.map((it) => jsonOf(it, base64)) : reply;
}

function stringOf(bytes: string, base64: boolean): string {
  return base64 ? Buffer.from(bytes, 'latin1').toString('base64') : textOf(bytes);
}

function isList(reply: ReadReply): reply is readonly ReadReply[] {
  return Array.isArray(reply);
}
