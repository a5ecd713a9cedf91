import { createHash } from 'node:crypto';
import { type Answer, COUNTER_KEYS, type Command, type Operation, SOUND, scriptsOf } from '../../core/index.js';

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

interface Script {
  readonly lua: string;
  readonly sha: string;
}

function withSha(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

// Settings cannot change what a command does, so these serve every lock.
const LUA = scriptsOf(SOUND.scripts);
const SCRIPTS: Readonly<Record<Command['operation'], Script>> = {
  acquire: withSha(LUA.acquire),
  extend: withSha(LUA.extend),
  release: withSha(LUA.release),
  'read-counter': withSha(LUA['read-counter']),
  'raise-counter': withSha(LUA['raise-counter']),
  'join-counter': withSha(LUA['join-counter']),
};

const ABOUT_COUNTER: readonly Operation[] = ['read-counter', 'raise-counter', 'join-counter'];

/** What the script of a command is given: its keys, and what comes behind the token. */
function argumentsOf(command: Command, keys: readonly string[]): [readonly string[], number[]] {
  if (ABOUT_COUNTER.includes(command.operation)) {
    const { counter, mark } = command;
    return [COUNTER_KEYS, mark === undefined ? [counter] : [counter, mark]];
  }
  return [keys, command.operation === 'release' ? [] : [command.ttlMs]];
}

/** Puts the scripts into a node's cache, so that later commands need no second round trip. */
export async function loadScripts(connection: RedisConnection): Promise<void> {
  // A node that refuses this (ACL) gets the text with the first command that needs it.
  await Promise.allSettled(Object.values(SCRIPTS).map(async ({ lua }) => connection.script('LOAD', lua)));
}

/** A command with the keys it is about: one for all nodes that it goes to, so that it is put into words once. */
export class Request {
  readonly command: Command;
  readonly keys: readonly string[];
  #words: Words | undefined;

  constructor(command: Command, keys: readonly string[]) {
    this.command = command;
    this.keys = keys;
  }

  get words(): Words {
    this.#words ??= inWords(wordsOf(this.command, this.keys));
    return this.#words;
  }
}

/** A Redis command: its name, its arguments, and both as they go over the network, in RESP. */
export interface Words {
  readonly name: string;
  readonly args: readonly string[];
  readonly text: string;
}

/** An array of bulk strings. */
export function inWords([name = '', ...args]: readonly string[]): Words {
  let text = `*${args.length + 1}\r\n$${Buffer.byteLength(name)}\r\n${name}\r\n`;
  for (const word of args) text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
  return { name, args, text };
}

function wordsOf(command: Command, keys: readonly string[]): readonly string[] {
  const token = String(command.token);
  const [key] = keys;
  if (command.operation === 'acquire' && keys.length === 1 && key !== undefined) {
    return ['set', key, token, 'PX', String(command.ttlMs), 'NX'];
  }
  const [names, values] = argumentsOf(command, keys);
  return ['evalsha', SCRIPTS[command.operation].sha, String(names.length), ...names, token, ...values.map(String)];
}

/** Sends `command` for `keys` by ioredis's own methods. The reply is read by {@link replyOf}; an error reply rejects. */
export function write(connection: RedisConnection, command: Command, keys: readonly string[]): Promise<unknown> {
  const token = String(command.token);
  const [key] = keys;
  if (command.operation === 'acquire' && keys.length === 1 && key !== undefined) {
    return connection.set(key, token, 'PX', command.ttlMs, 'NX');
  }
  const [names, values] = argumentsOf(command, keys);
  return connection.evalsha(SCRIPTS[command.operation].sha, names.length, ...names, token, ...values);
}

/** Sends `command` with the text of its script, to a node that has lost its cache. */
export function writeWithText(
  connection: RedisConnection,
  command: Command,
  keys: readonly string[],
): Promise<unknown> {
  const [names, values] = argumentsOf(command, keys);
  const { lua } = SCRIPTS[command.operation];
  return connection.eval(lua, names.length, ...names, String(command.token), ...values);
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

/** Whether the node itself said so, and not the connection that it was lost. */
export function isErrorReply(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError';
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
