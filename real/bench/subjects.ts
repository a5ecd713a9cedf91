import { createHash } from 'node:crypto';
import type { Redis, RedisOptions } from 'ioredis';
import { Redlock, type RedlockSettings } from 'lockstep-redlock';
import { SOUND, scriptsOf } from '../../core/index.js';
import { newRuntime } from '../lock/parts.js';
import type { SubjectName } from './types.js';

/** Long enough that no key of a benchmark expires while it counts. */
export const TTL_MS = 30_000;

/** How an acquisition that failed is tried again. */
export interface Retries {
  /** Further attempts; `Infinity` is as many as the library can be told. */
  readonly count: number;
  readonly delayMs: number;
  readonly jitterMs: number;
}

/** One worker's way to one resource. */
export interface Worker {
  acquire(): Promise<Held>;
}

/** What a worker holds. */
export interface Held {
  /** For the TTL from now. */
  extend(): Promise<unknown>;
  /** What the library says is left of the validity, ms; `null` where it says nothing. */
  claimedMs(): number | null;
  release(): Promise<unknown>;
}

/** Something that locks. */
export interface Subject {
  readonly name: SubjectName;
  /** What it puts before a resource to make a key; default nothing. */
  readonly keyPrefix?: string;
  worker(resource: string): Worker;
  close(): Promise<void>;
}

/** Makes one client for each node. The benchmark that hands it out closes them. */
type MakeClients = (options?: RedisOptions) => Redis[];

/** Makes a lock to measure from connections of its own. `ttlMs` is that of its locks, ms. */
export type MakeSubject = (makeClients: MakeClients, retries: Retries, ttlMs?: number) => Promise<Subject>;

/** The lock of this project. */
export const makeLockstep: MakeSubject = async (makeClients, retries, ttlMs) =>
  subjectOf('lockstep', new Redlock(makeClients(), lockSettings(retries)), ttlMs);

/** How the lock is told of retries. */
export function lockSettings({ count, delayMs, jitterMs }: Retries): RedlockSettings {
  return { retryCount: count === Infinity ? -1 : count, retryDelay: delayMs, retryJitter: jitterMs };
}

/** A lock of this project, as something to measure. */
export function subjectOf(name: SubjectName, redlock: Redlock, ttlMs: number = TTL_MS): Subject {
  return {
    name,
    worker: (resource) => ({
      async acquire() {
        const lock = await redlock.acquire(resource, ttlMs);
        return {
          extend: () => lock.extend(ttlMs),
          claimedMs: () => lock.remaining(),
          release: () => lock.release(),
        };
      },
    }),
    close: () => redlock.quit(),
  };
}

interface Script {
  readonly lua: string;
  readonly sha: string;
}

function scriptOf(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

const EXTEND = scriptOf(scriptsOf(SOUND.scripts).extend);
const RELEASE = scriptOf(scriptsOf(SOUND.scripts).release);

/** All replies awaited: the least that a lock in lockstep with its nodes can do. */
export const makeFloor: MakeSubject = (makeClients) => floor('floor', makeClients().map(bareNode), allReplies);

/** The same on clients with ioredis's auto-pipelining. */
export const makePipelinedFloor: MakeSubject = (makeClients) =>
  floor('floor-auto-pipelined', makeClients({ enableAutoPipelining: true }).map(bareNode), allReplies);

/** The replies of a quorum awaited, those of the others left to come. */
export const makeQuorumFloor: MakeSubject = (makeClients) =>
  floor('floor-at-quorum', makeClients().map(bareNode), firstQuorum);

/** The same on any client, with a time-out that is armed for each round, and cleared by the quorum. */
export function floorOn(name: SubjectName, senders: readonly SendWords[]): Promise<Subject> {
  const nodes = senders.map((send) => ({
    load: (lua: string) => send(['SCRIPT', 'LOAD', lua]),
    set: (key: string, token: string) => send(['SET', key, token, 'PX', TTL_WORD, 'NX']),
    extend: (key: string, token: string) => send(['EVALSHA', EXTEND.sha, '1', key, token, TTL_WORD]),
    release: (key: string, token: string) => send(['EVALSHA', RELEASE.sha, '1', key, token]),
  }));
  return floor(name, nodes, async (replies) => {
    const timer = setTimeout(() => {}, NODE_TIMEOUT_MS);
    const got = await firstQuorum(replies);
    clearTimeout(timer);
    return got;
  });
}

/** Sends a command to one node. */
export type SendWords = (words: readonly string[]) => Promise<unknown>;

/** The commands of a floor on one node. */
interface BareNode {
  load(lua: string): Promise<unknown>;
  set(key: string, token: string): Promise<unknown>;
  extend(key: string, token: string): Promise<unknown>;
  release(key: string, token: string): Promise<unknown>;
}

function bareNode(client: Redis): BareNode {
  return {
    load: (lua) => client.script('LOAD', lua),
    set: (key, token) => client.set(key, token, 'PX', TTL_MS, 'NX'),
    extend: (key, token) => client.evalsha(EXTEND.sha, 1, key, token, TTL_MS),
    release: (key, token) => client.evalsha(RELEASE.sha, 1, key, token),
  };
}

const TTL_WORD = String(TTL_MS);
/** That of the lock by default. */
const NODE_TIMEOUT_MS = 50;

/** Has no clock and no clean-up: what it costs to send the commands and to read the replies. */
async function floor(
  name: SubjectName,
  nodes: readonly BareNode[],
  settle: (replies: Promise<unknown>[]) => Promise<readonly unknown[]>,
): Promise<Subject> {
  const { chance } = newRuntime();
  await Promise.all(nodes.flatMap((node) => [EXTEND, RELEASE].map(({ lua }) => node.load(lua))));
  return {
    name,
    worker: (resource) => ({
      async acquire() {
        const token = String(chance.draw().token);
        const votes = await settle(nodes.map((node) => node.set(resource, token)));
        if (votes.includes(null)) throw new Error(`The floor found ${resource} held: something is left from before.`);
        return {
          extend: () => settle(nodes.map((node) => node.extend(resource, token))),
          claimedMs: () => null,
          release: () => settle(nodes.map((node) => node.release(resource, token))),
        };
      },
    }),
    close: async () => {},
  };
}

function allReplies(replies: Promise<unknown>[]): Promise<unknown[]> {
  return Promise.all(replies);
}

function firstQuorum(replies: readonly Promise<unknown>[]): Promise<readonly unknown[]> {
  const quorum = SOUND.quorum(replies.length, 'acquire');
  const got: unknown[] = [];
  return new Promise((resolve, reject) => {
    for (const reply of replies) {
      reply.then((value) => {
        if (got.push(value) === quorum) resolve(got);
      }, reject);
    }
  });
}
