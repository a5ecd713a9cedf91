/** An error that a server answers with. */
export class RestError {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A status, which is told in letters. */
class Told {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A reply of RESP2, as far as a REST server hands it on. */
export type RestReply = string | number | null | Told | RestError | readonly RestReply[];

/** Reads one reply at this place, and says where the next begins; `null` as long as it is not whole. Bytes are Latin-1. */
export function replyAt(bytes: string, at: number): readonly [RestReply, number] | null {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return null;
  const line = bytes.slice(at + 1, end);
  const next = end + 2;
  switch (bytes[at]) {
    case '-':
      return [new RestError(line), next];
    case ':':
      return [Number(line), next];
    case '$': {
      if (line === '-1') return [null, next];
      const last = next + Number(line);
      return bytes.length < last + 2 ? null : [bytes.slice(next, last), last + 2];
    }
    case '*': {
      if (line === '-1') return [null, next];
      const items: RestReply[] = [];
      let from = next;
      for (let i = 0; i < Number(line); i++) {
        const item = replyAt(bytes, from);
        if (item === null) return null;
        items.push(item[0]);
        from = item[1];
      }
      return [items, from];
    }
    default:
      return [new Told(line), next];
  }
}

/** What JSON has for a reply. @param base64 - Strings are told so, but for `OK`. */
export function jsonOf(reply: RestReply, base64: boolean): unknown {
  if (typeof reply === 'string') return textOf(reply, base64);
  if (reply instanceof Told) return reply.text === 'OK' ? 'OK' : textOf(reply.text, base64);
  if (reply instanceof RestError) return reply.text;
  return isList(reply) ? reply.map((it) => jsonOf(it, base64)) : reply;
}

function textOf(bytes: string, base64: boolean): string {
  return Buffer.from(bytes, 'latin1').toString(base64 ? 'base64' : 'utf8');
}

function isList(reply: RestReply): reply is readonly RestReply[] {
  return Array.isArray(reply);
}
