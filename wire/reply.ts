/** A status reply, `+OK`. */
export class Status {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An error reply, `-ERR …`; its text begins with its code. Commands throw it or return it. */
export class Failure {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A floating-point number: a bulk string in RESP2, with the digits given. */
export class Double {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A reply of a transaction, which may change its protocol half way: it is written as it was when its command ran. */
export class Dated {
  readonly reply: Reply;
  readonly protocol: 2 | 3;

  constructor(reply: Reply, protocol: 2 | 3) {
    this.reply = reply;
    this.protocol = protocol;
  }
}

/** Pairs of key and value: a flat array in RESP2. */
export class MapReply {
  readonly pairs: readonly (readonly [Reply, Reply])[];

  constructor(pairs: readonly (readonly [Reply, Reply])[]) {
    this.pairs = pairs;
  }
}

/** Members without an order: an array in RESP2. */
export class SetReply {
  readonly items: readonly Reply[];

  constructor(items: readonly Reply[]) {
    this.items = items;
  }
}

/** What was not asked for, or comes out of band in RESP3: an array in RESP2. */
export class Push {
  readonly items: readonly Reply[];

  constructor(items: readonly Reply[]) {
    this.items = items;
  }
}

/** Text for people, with its format in three letters: a bulk string in RESP2. */
export class Verbatim {
  readonly text: string;
  readonly format: string;

  constructor(text: string, format = 'txt') {
    this.text = text;
    this.format = format;
  }
}

/** An integer too large for a bulk of a safe number; scripts of RESP3 only. */
export class BigNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Several replies to one command, one after the other. */
export class Several {
  readonly replies: readonly Reply[];

  constructor(replies: readonly Reply[]) {
    this.replies = replies;
  }
}

/** The null array of RESP2 (`*-1`); `null` alone is the null bulk string. RESP3 has one null. */
export const NULL_ARRAY: unique symbol = Symbol('null array');

/** No reply at all: the command answers later, or its connection asked for silence. */
export const NO_REPLY: unique symbol = Symbol('no reply');

/**
 * What a server answers. Strings are bulk strings, of bytes as Latin-1; numbers are integers; booleans are integers in
 * RESP2.
 */
export type Reply =
  | string
  | number
  | bigint
  | boolean
  | null
  | typeof NULL_ARRAY
  | typeof NO_REPLY
  | Status
  | Failure
  | Double
  | MapReply
  | SetReply
  | Push
  | Verbatim
  | BigNumber
  | Several
  | Dated
  | readonly Reply[];

/** The reply of most commands that change something. */
export const OK: Status = new Status('OK');

/** Text as C prints it: up to its first zero byte. */
export function printed(text: string): string {
  const end = text.indexOf('\0');
  return end < 0 ? text : text.slice(0, end);
}

/** An error with the general code `ERR`. */
export function fail(text: string): Failure {
  return new Failure(`ERR ${text}`);
}

/** An unknown option, or one in the wrong place. */
export const SYNTAX: Failure = fail('syntax error');
/** The key holds a value of another type. */
export const WRONG_TYPE: Failure = new Failure('WRONGTYPE Operation against a key holding the wrong kind of value');
/** An argument that has to be an integer of 64 bits. */
export const NOT_INTEGER: Failure = fail('value is not an integer or out of range');
/** An argument that has to be a floating-point number. */
export const NOT_FLOAT: Failure = fail('value is not a valid float');
/** The script is not in the cache. */
export const NO_SCRIPT: Failure = new Failure('NOSCRIPT No matching script. Please use EVAL.');
/** A key that has to be there is not. */
export const NO_KEY: Failure = fail('no such key');

/** The error on a command with too few or too many arguments. */
export function wrongArity(name: string): Failure {
  return fail(`wrong number of arguments for '${name}' command`);
}
