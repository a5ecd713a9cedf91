import { createHash } from 'node:crypto';
import {
  type Answer,
  COUNTER_KEYS,
  type Command,
  type NodeScripts,
  type Operation,
  type Rules,
  type Scripts,
  SOUND,
  scriptsOf,
} from '../../core/index.js';

/** What a lock needs of a connection: ioredis 5 and 6, and ioredis-mock, have it. */
export interface RedisConnection {
  set(key: string, value: string, px: 'PX', ttlMs: number, nx: 'NX'): Promise<unknown>;
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
  eval(lua: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
  get(key: string): Promise<unknown>;
  pttl(key: string): Promise<unknown>;
  script(load: 'LOAD', lua: string): Promise<unknown>;
  connect(): Promise<unknown>;
  quit(): Promise<unknown>;
  disconnect(): void;
  on(event: string, listener: (error: Error) => void): unknown;
}

// Made once: the texts of the scripts of a lock, and their hashes.
const texts = new WeakMap<NodeScripts, Scripts>();
const hashes = new Map<string, string>();

function textsOf(scripts: NodeScripts): Scripts {
  const known = texts.get(scripts);
  if (known !== undefined) return known;
  const made = scriptsOf(scripts);
  texts.set(scripts, made);
  return made;
}

function hashOf(lua: string): string {
  const known = hashes.get(lua);
  if (known !== undefined) return known;
  const made = createHash('sha1').update(lua).digest('hex');
  hashes.set(lua, made);
  return made;
}

/** Puts the scripts into a node's cache, so that later commands need no second round trip. */
export async function loadScripts(connection: RedisConnection): Promise<void> {
  // A node that refuses this (ACL) gets the text with the first command that needs it.
  await Promise.allSettled(Object.values(textsOf(SOUND.scripts)).map(async (lua) => connection.script('LOAD', lua)));
}

/** A Redis command in the forms that connections take it in: each is made once for all nodes, and only where one takes it. */
export class EncodedCommand<Name extends string = string> {
  readonly name: Name;
  readonly args: readonly string[];
  #text: string | undefined;
  #words: readonly string[] | undefined;

  constructor(name: Name, args: readonly string[]) {
    this.name = name;
    this.args = args;
  }

  /** As it goes over the network, in RESP: an array of bulk strings. */
  get text(): string {
    this.#text ??= textOf([this.name, ...this.args]);
    return this.#text;
  }

  /** The name, in capitals, and the arguments. Frozen: nodes share it. */
  get words(): readonly string[] {
    this.#words ??= Object.freeze([this.name.toUpperCase(), ...this.args]);
    return this.#words;
  }
}

function textOf(words: readonly string[]): string {
  let text = `*${words.length}\r\n`;
  for (const word of words) text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
  return text;
}

const ABOUT_COUNTER: readonly Operation[] = ['read-counter', 'raise-counter', 'join-counter'];

/** A command of a lock in words. */
export type LockWords = EncodedCommand<'set' | 'eval' | 'evalsha' | 'delex' | 'delifeq'>;

/** What a server compares with the token by itself, so that one key needs no script. */
export interface Comparisons {
  /** Whether it has `SET … IFEQ`. */
  readonly sets: boolean;
  /** Its command to delete. */
  readonly deletes: 'delex' | 'delifeq' | null;
}

/** Of a server that has scripts alone. */
export const NO_COMPARISONS: Comparisons = { sets: false, deletes: null };
const OF_REDIS: Comparisons = { sets: true, deletes: 'delex' };
const OF_VALKEY_8: Comparisons = { sets: true, deletes: null };
const OF_VALKEY_9: Comparisons = { sets: true, deletes: 'delifeq' };

/** By what a server says of itself: Redis from 8.4 and Valkey from 8.1 compare. */
export function comparisonsOf(info: string): Comparisons {
  const valkey = /^valkey_version:(\d+)\.(\d+)/m.exec(info);
  if (valkey !== null) {
    const version = Number(valkey[1]) * 1000 + Number(valkey[2]);
    return version >= 9000 ? OF_VALKEY_9 : version >= 8001 ? OF_VALKEY_8 : NO_COMPARISONS;
  }
  const redis = /^redis_version:(\d+)\.(\d+)/m.exec(info);
  return Number(redis?.[1]) * 1000 + Number(redis?.[2]) >= 8004 ? OF_REDIS : NO_COMPARISONS;
}

/** A command with the keys it is about: one for all nodes that it goes to, so that it is put into words once. */
export class Request {
  readonly command: Command;
  readonly #keys: readonly string[];
  readonly #rules: Rules;
  readonly #isShorter: boolean;
  #words: LockWords | undefined;
  #comparisons: Comparisons = NO_COMPARISONS;
  #compared: LockWords | null = null;

  /** @param isShorter - Whether the keys may have been given a longer TTL before, which must stay. */
  constructor(command: Command, keys: readonly string[], rules: Rules = SOUND, isShorter = false) {
    this.command = command;
    this.#keys = keys;
    this.#rules = rules;
    this.#isShorter = isShorter;
  }

  /** The same by what a server compares itself; `null` if it takes a script. */
  comparedBy(comparisons: Comparisons): LockWords | null {
    if (comparisons !== this.#comparisons) {
      this.#comparisons = comparisons;
      this.#compared = this.#compare(comparisons);
    }
    return this.#compared;
  }

  #compare({ sets, deletes }: Comparisons): LockWords | null {
    const [key, other] = this.#keys;
    const { operation } = this.command;
    if (key === undefined || other !== undefined) return null;
    // One that heals sets missing keys too, and no single command does both.
    if ((operation === 'extend' || operation === 'release') && !this.#isSound(operation)) return null;
    const token = String(this.command.token);
    if (operation === 'release' && deletes === 'delex') return new EncodedCommand('delex', [key, 'IFEQ', token]);
    if (operation === 'release' && deletes === 'delifeq') return new EncodedCommand('delifeq', [key, token]);
    // It gives the key this TTL whatever it has, where the script never shortens.
    if (operation !== 'extend' || !sets || this.#isShorter) return null;
    return new EncodedCommand('set', [key, token, 'IFEQ', token, 'PX', String(this.#lifeMs)]);
  }

  #isSound(operation: 'extend' | 'release'): boolean {
    return this.#rules.scripts[operation] === SOUND.scripts[operation];
  }

  /** `SET` where that will do, else its script by its hash. */
  get words(): LockWords {
    this.#words ??= this.#set() ?? this.#script('evalsha', hashOf(this.#lua));
    return this.#words;
  }

  /** The same with the text of its script, for a node that does not know that. */
  get inFull(): LockWords {
    return this.#set() ?? this.#script('eval', this.#lua);
  }

  #set(): LockWords | null {
    const { operation, token } = this.command;
    const { plain } = this.#rules.scripts.acquire;
    const [key, other] = this.#keys;
    if (operation !== 'acquire' || plain === null || key === undefined || other !== undefined) return null;
    return new EncodedCommand('set', [key, String(token), 'PX', String(this.#lifeMs), ...plain]);
  }

  get #lua(): string {
    const { operation, round } = this.command;
    const { scripts } = this.#rules;
    const { asks } = scripts.release;
    return operation === 'release' && round === 0 && asks !== null ? asks : textsOf(scripts)[operation];
  }

  /** What its script is given: its keys, the token, and what comes behind that. */
  #script(name: 'eval' | 'evalsha', script: string): LockWords {
    const { operation, token, counter, mark } = this.command;
    const isAboutCounter = ABOUT_COUNTER.includes(operation);
    const keys = isAboutCounter ? COUNTER_KEYS : this.#keys;
    const args = [script, String(keys.length), ...keys, String(token)];
    if (isAboutCounter) args.push(String(counter), ...(mark === undefined ? [] : [String(mark)]));
    else if (operation !== 'release') args.push(String(this.#lifeMs));
    return new EncodedCommand(name, args);
  }

  get #lifeMs(): number {
    return this.#rules.keyLife(this.command.ttlMs, this.command.attempt);
  }
}

/** Sends a command by ioredis's own methods. The reply is read by {@link replyOf}; an error reply rejects. */
export function write(connection: RedisConnection, { name, args }: LockWords): Promise<unknown> {
  return Reflect.apply(Reflect.get(connection, name), connection, args);
}

/** What a node has under a key: whose token, and for how long, ms; `null` is nothing. */
export type Seen = { readonly token: string; readonly leftMs: number } | null;

/** Reads a key without changing it. Two commands: in between it may go, which then reads as nothing there. */
export async function look(connection: RedisConnection, key: string): Promise<Seen> {
  const [token, leftMs] = await Promise.all([connection.get(key), connection.pttl(key)]);
  // A key without a TTL is nobody's lock, but it is in the way all the same.
  if (typeof token !== 'string' || leftMs === -2) return null;
  return { token, leftMs: typeof leftMs === 'number' && leftMs >= 0 ? leftMs : Number.POSITIVE_INFINITY };
}

/**
 * Whether the node itself said so, and not the connection that it was lost: ioredis says which it is, and the replies of all
 * servers begin with a code in capitals, which no other client's own errors do.
 */
export function isErrorReply(error: unknown): boolean {
  return error instanceof Error && (error.name === 'ReplyError' || /^[A-Z][A-Z0-9]+ /.test(error.message));
}

/** Whether an error reply says that the node does not have the script. */
export function isMissingScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** A reply as a lock takes it: with the node's counter where the command was about it, else 0. */
export interface Reply {
  readonly answer: Answer;
  readonly counter: number;
}

/** Of a node that is away, or said nothing that a lock may rely on. */
export const NO_VOTE: Reply = Object.freeze({ answer: 'error', counter: 0 });
const PLAIN: Readonly<Record<Answer, Reply>> = {
  yes: Object.freeze({ answer: 'yes', counter: 0 }),
  no: Object.freeze({ answer: 'no', counter: 0 }),
  error: NO_VOTE,
};

/** Reads the reply to a command. */
export function replyOf(command: Command, reply: unknown): Reply {
  if (!ABOUT_COUNTER.includes(command.operation)) return PLAIN[answerOf(reply)];
  if (typeof reply !== 'number' || !Number.isSafeInteger(reply)) return NO_VOTE;
  return reply < 0 ? { answer: 'no', counter: -reply } : { answer: 'yes', counter: reply };
}

const OK: Buffer = Buffer.from('OK');

/** Reads a reply about keys: `OK` or 1 is yes, nil or 0 is no; anything else is nothing a lock may rely on. */
export function answerOf(reply: unknown): Answer {
  if (reply === 'OK' || reply === 1 || (Buffer.isBuffer(reply) && reply.equals(OK))) return 'yes';
  return reply === null || reply === 0 ? 'no' : 'error';
}
