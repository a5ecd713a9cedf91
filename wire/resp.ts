import {
  BigNumber,
  Dated,
  Double,
  Failure,
  MapReply,
  NO_REPLY,
  Push,
  type Reply,
  SetReply,
  Several,
  Status,
  Verbatim,
} from './reply.js';
import { parseInteger, splitWords } from './text.js';

/** The version of the protocol that a connection speaks. */
export type Protocol = 2 | 3;

/** A reply as bytes, in Latin-1. */
export function encode(reply: Reply, protocol: Protocol): string {
  switch (typeof reply) {
    case 'string':
      return `$${reply.length}\r\n${reply}\r\n`;
    case 'number':
    case 'bigint':
      return `:${reply}\r\n`;
    case 'boolean':
      return protocol === 3 ? (reply ? '#t\r\n' : '#f\r\n') : reply ? ':1\r\n' : ':0\r\n';
    case 'symbol':
      return reply === NO_REPLY ? '' : protocol === 3 ? '_\r\n' : '*-1\r\n';
    default:
      if (reply === null) return protocol === 3 ? '_\r\n' : '$-1\r\n';
      return encodeObject(reply, protocol);
  }
}

type ObjectReply = Exclude<Reply, string | number | bigint | boolean | symbol | null>;

function encodeObject(reply: ObjectReply, protocol: Protocol): string {
  if (reply instanceof Status) return `+${reply.text}\r\n`;
  if (reply instanceof Failure) return `-${reply.text.replace(/[\r\n]/g, ' ')}\r\n`;
  if (reply instanceof Dated) return encode(reply.reply, reply.protocol);
  if (reply instanceof Several) return reply.replies.map((it) => encode(it, protocol)).join('');
  if (reply instanceof MapReply) {
    const head = protocol === 3 ? `%${reply.pairs.length}` : `*${reply.pairs.length * 2}`;
    return `${head}\r\n${reply.pairs.map(([k, v]) => encode(k, protocol) + encode(v, protocol)).join('')}`;
  }
  if (reply instanceof SetReply) return encodeAll(protocol === 3 ? '~' : '*', reply.items, protocol);
  if (reply instanceof Push) return encodeAll(protocol === 3 ? '>' : '*', reply.items, protocol);
  if (reply instanceof Double) return protocol === 3 ? `,${reply.text}\r\n` : encode(reply.text, 2);
  if (reply instanceof BigNumber) return protocol === 3 ? `(${reply.text}\r\n` : encode(reply.text, 2);
  if (reply instanceof Verbatim) {
    if (protocol === 2) return encode(reply.text, 2);
    return `=${reply.text.length + 4}\r\n${reply.format}:${reply.text}\r\n`;
  }
  return encodeAll('*', reply, protocol);
}

function encodeAll(mark: string, items: readonly Reply[], protocol: Protocol): string {
  let text = `${mark}${items.length}\r\n`;
  for (const item of items) text += encode(item, protocol);
  return text;
}

/** A request that breaks the protocol: it is answered, and the connection is closed. */
export class ProtocolError {
  readonly failure: Failure;

  constructor(text: string) {
    this.failure = new Failure(`ERR Protocol error: ${text}`);
  }
}

const MAX_LINE = 64 * 1024;
const MAX_ARGUMENTS = 2 ** 31 - 1;
const MAX_BULK = 512 * 1024 * 1024;
/** What those may send who have not authenticated. */
const MAX_ARGUMENTS_UNAUTHENTICATED = 10;
const MAX_BULK_UNAUTHENTICATED = 16_384;

const ASTERISK = 42;
const DOLLAR = 36;
const RETURN = 13;
const ZERO = 48;

/** Takes requests out of the bytes of one connection: arrays of bulk strings, or lines of words. */
export class RequestParser {
  private buffer = '';
  private at = 0;
  /** Arguments of the request that is being read, and how many are to come. */
  private words: string[] = [];
  private missing = 0;
  private bulkLength = -1;

  /** Nothing is left of what it was fed with. */
  get isEmpty(): boolean {
    return this.at >= this.buffer.length && this.missing === 0;
  }

  /** Adds bytes, in Latin-1. */
  feed(bytes: string): void {
    this.buffer = this.at >= this.buffer.length ? bytes : this.buffer.slice(this.at) + bytes;
    this.at = 0;
  }

  /** The next whole request, `null` if there is none yet. An empty request is passed over. */
  next(authenticated: boolean): string[] | ProtocolError | null {
    while (this.at < this.buffer.length) {
      const request =
        this.missing === 0 && this.buffer.charCodeAt(this.at) !== ASTERISK
          ? this.inline()
          : this.multibulk(authenticated);
      if (request === null || request instanceof ProtocolError || request.length > 0) return request;
    }
    return null;
  }

  private inline(): string[] | ProtocolError | null {
    const end = this.buffer.indexOf('\n', this.at);
    if (end < 0) return this.buffer.length - this.at > MAX_LINE ? new ProtocolError('too big inline request') : null;
    const line = this.buffer.slice(this.at, this.buffer[end - 1] === '\r' && end > this.at ? end - 1 : end);
    const words = splitWords(line);
    if (words === null) return new ProtocolError('unbalanced quotes in request');
    this.at = end + 1;
    return words;
  }

  private multibulk(authenticated: boolean): string[] | ProtocolError | null {
    const short = this.missing === 0 ? this.shortCount(ASTERISK, MAX_ARGUMENTS_UNAUTHENTICATED) : 0;
    if (short > 0) {
      this.missing = short;
      this.words = [];
    } else if (this.missing === 0) {
      const line = this.line('mbulk count string');
      if (typeof line !== 'string') return line;
      const count = parseInteger(line.slice(1));
      if (count === null || count > MAX_ARGUMENTS) return new ProtocolError('invalid multibulk length');
      if (count > MAX_ARGUMENTS_UNAUTHENTICATED && !authenticated)
        return new ProtocolError('unauthenticated multibulk length');
      if (count <= 0) return [];
      this.missing = Number(count);
      this.words = [];
    }
    while (this.missing > 0) {
      const word = this.bulk(authenticated);
      if (typeof word !== 'string') return word;
      this.words.push(word);
      this.missing--;
    }
    return this.words;
  }

  private bulk(authenticated: boolean): string | ProtocolError | null {
    if (this.bulkLength < 0) this.bulkLength = this.shortCount(DOLLAR, MAX_BULK_UNAUTHENTICATED);
    if (this.bulkLength < 0) {
      const line = this.line('bulk count string');
      if (typeof line !== 'string') return line;
      if (line.charCodeAt(0) !== DOLLAR) return new ProtocolError(`expected '$', got '${line[0] ?? '\r'}'`);
      const length = parseInteger(line.slice(1));
      if (length === null || length < 0 || length > MAX_BULK) return new ProtocolError('invalid bulk length');
      if (length > MAX_BULK_UNAUTHENTICATED && !authenticated) return new ProtocolError('unauthenticated bulk length');
      this.bulkLength = Number(length);
    }
    const end = this.at + this.bulkLength;
    if (this.buffer.length < end + 2) return null;
    const word = this.buffer.slice(this.at, end);
    this.at = end + 2;
    this.bulkLength = -1;
    return word;
  }

  /**
   * Takes a line with this mark and a number above 0 that is allowed to anybody, which most are. -1 for any other line, or a
   * part of one: nothing is taken then.
   */
  private shortCount(mark: number, most: number): number {
    const { buffer } = this;
    if (buffer.charCodeAt(this.at) !== mark) return -1;
    let count = 0;
    let at = this.at + 1;
    for (; count <= most; at++) {
      const digit = buffer.charCodeAt(at) - ZERO;
      if (!(digit >= 0 && digit <= 9) || (count === 0 && digit === 0)) break;
      count = 10 * count + digit;
    }
    if (count === 0 || count > most || buffer.charCodeAt(at) !== RETURN || at + 2 > buffer.length) return -1;
    this.at = at + 2;
    return count;
  }

  private line(what: string): string | ProtocolError | null {
    const end = this.buffer.indexOf('\r', this.at);
    if (end < 0) return this.buffer.length - this.at > MAX_LINE ? new ProtocolError(`too big ${what}`) : null;
    if (end + 2 > this.buffer.length) return null;
    const line = this.buffer.slice(this.at, end);
    this.at = end + 2;
    return line;
  }
}
