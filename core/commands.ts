import type { NodeSet } from './nodes.js';
import type { FencingPolicy as Policy } from './settings.js';

/**
 * Unique value that marks a key as one attempt's own. Compared for equality only, but for the order of two fencing
 * tokens with the same counter, where any order will do.
 */
export type Token = (number | string) & { readonly __token: true };

/**
 * What a lock asks a node to do: about its keys, of which several are one all-or-nothing command, or about the node's
 * fencing counter. `join-counter` lets a node that has lost its counter count again, from a value that others know.
 */
export type Operation = 'acquire' | 'extend' | 'release' | 'read-counter' | 'raise-counter' | 'join-counter';

/** One command, the same for every node it goes to. */
export interface Command {
  readonly operation: Operation;
  /** Attempt the token belongs to, from 0. */
  readonly attempt: number;
  /** Round of extension, or of reading and raising counters, from 0; 0 for the other operations. */
  readonly round: number;
  readonly token: Token;
  /** Time to live to set, ms; 0 for what sets no key. */
  readonly ttlMs: number;
  /** Value to raise the counter to, or to join with; else 0. */
  readonly counter: number;
}

/**
 * How a node answered: `yes` did it, `no` did not (held by another, nothing of ours there, or it has no counter), `error`
 * is no vote.
 */
export type Answer = 'yes' | 'no' | 'error';

/** A command and the nodes it is for, in index order. */
export interface Sending {
  readonly to: NodeSet;
  readonly command: Command;
}

/**
 * The Lua text of each operation, `ARGV[1]` the token.
 *
 * Those about keys have the resources as `KEYS` and the TTL in ms as `ARGV[2]`. Each answers 1 for yes and 0 for no.
 * Acquire and extend decide before they write, and so act on all keys or on none; a release deletes whichever keys are
 * still ours and says yes if there was one.
 *
 * Those about the counter have {@link COUNTER_KEYS} as `KEYS` and the value as `ARGV[2]`. Each answers with the counter
 * as it is then, or with -1 for no.
 */
export type Scripts = Readonly<Record<Operation, string>>;

/** The node's fencing counter, which never expires, and the last attempt that found none there; both in one hash slot. */
export const COUNTER_KEYS: readonly [string, string] = ['{lockstep:fencing}', '{lockstep:fencing}:joining'];

const READ = `
local counter = redis.call('get', KEYS[1])
if counter then return tonumber(counter) end
redis.call('set', KEYS[2], ARGV[1])
return -1`;

const READ_AT_ONCE = `return tonumber(redis.call('get', KEYS[1]) or '0')`;

// Never lowers: a value that arrives late must not undo a higher one that was acknowledged.
const HIGHER = `
if tonumber(counter) >= tonumber(ARGV[2]) then return tonumber(counter) end
redis.call('set', KEYS[1], ARGV[2])
return tonumber(ARGV[2])`;

const RAISE = `
local counter = redis.call('get', KEYS[1])
if not counter then return -1 end${HIGHER}`;

const RAISE_AT_ONCE = `local counter = redis.call('get', KEYS[1]) or '0'${HIGHER}`;

const PLAIN_WRITE = `
redis.call('set', KEYS[1], ARGV[2])
return tonumber(ARGV[2])`;

// What is joined with was read after the node had lost its counter, and it has not lost it again since.
const JOIN = `
if redis.call('exists', KEYS[1]) == 1 or redis.call('get', KEYS[2]) ~= ARGV[1] then return -1 end
redis.call('set', KEYS[1], ARGV[2])
redis.call('del', KEYS[2])
return tonumber(ARGV[2])`;

/** The scripts about counters. */
export function counterScripts(policy: Policy): Omit<Scripts, 'acquire' | 'extend' | 'release'> {
  return {
    'read-counter': (policy.rejoin === 'copy' ? READ : READ_AT_ONCE).trim(),
    'raise-counter': raiseOf(policy).trim(),
    'join-counter': JOIN.trim(),
  };
}

function raiseOf({ fencing, rejoin }: Policy): string {
  if (fencing === 'plain-write') return PLAIN_WRITE;
  return rejoin === 'copy' ? RAISE : RAISE_AT_ONCE;
}
