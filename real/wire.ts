import { createHash } from 'node:crypto';
import { type Answer, type Command, REFERENCE, scriptsOf } from '../core/index.js';

/** What a lock needs of a connection: ioredis 5 and 6, and ioredis-mock, have it. */
export interface RedisConnection {
  set(key: string, value: string, px: 'PX', ttlMs: number, nx: 'NX'): Promise<unknown>;
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
  eval(lua: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
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
const LUA = scriptsOf(REFERENCE);
const SCRIPTS: Readonly<Record<Command['operation'], Script>> = {
  acquire: withSha(LUA.acquire),
  extend: withSha(LUA.extend),
  release: withSha(LUA.release),
};

/** Puts the scripts into a node's cache, so that later commands need no second round trip. */
export async function loadScripts(connection: RedisConnection): Promise<void> {
  // A node that refuses this (ACL) gets the text with the first command that needs it.
  await Promise.allSettled(Object.values(SCRIPTS).map(async ({ lua }) => connection.script('LOAD', lua)));
}

/** Sends `command` for `keys`. The reply is read by {@link answerOf}; an error reply rejects. */
export function write(connection: RedisConnection, command: Command, keys: readonly string[]): Promise<unknown> {
  const token = String(command.token);
  const [key] = keys;
  if (command.operation === 'acquire' && keys.length === 1 && key !== undefined) {
    return connection.set(key, token, 'PX', command.ttlMs, 'NX');
  }
  const { sha } = SCRIPTS[command.operation];
  return command.operation === 'release'
    ? connection.evalsha(sha, keys.length, ...keys, token)
    : connection.evalsha(sha, keys.length, ...keys, token, command.ttlMs);
}

/** Sends `command` with the text of its script, to a node that has lost its cache. */
export function writeWithText(
  connection: RedisConnection,
  command: Command,
  keys: readonly string[],
): Promise<unknown> {
  return connection.eval(
    SCRIPTS[command.operation].lua,
    keys.length,
    ...keys,
    String(command.token),
    ...(command.operation === 'release' ? [] : [command.ttlMs]),
  );
}

/** Whether an error reply says that the node does not have the script. */
export function isMissingScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Reads a reply: `OK` or 1 is yes, nil or 0 is no; anything else is nothing a lock may rely on. */
export function answerOf(reply: unknown): Answer {
  if (reply === 'OK' || reply === 1) return 'yes';
  return reply === null || reply === 0 ? 'no' : 'error';
}
