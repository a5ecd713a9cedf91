import { createHash } from 'node:crypto';
import type { Redis, RedisOptions } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { SOUND, scriptsOf } from '../../core/index.js';
import { DEFAULT_RUNTIME } from '../lock/parts.js';
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

/** Makes one client for each node. Whoever hands it out closes them. */
type MakeClients = (options?: RedisOptions) => Redis[];

/** Makes a lock to measure from connections of its own. `ttlMs` is that of its locks, ms. */
export type MakeSubject = (makeClients: MakeClients, retries: Retries, ttlMs?: number) => Promise<Subject>;

/** The lock of this project. */
export const makeLockstep: MakeSubject = async (makeClients, retries, ttlMs = TTL_MS) => {
  const redlock = new Redlock(makeClients(), {
    retryCount: retries.count === Infinity ? -1 : retries.count,
    retryDelay: retries.delayMs,
    retryJitter: retries.jitterMs,
  });
  return {
    name: 'lockstep',
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
};

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
export const makeFloor: MakeSubject = (makeClients) => floor('floor', makeClients(), (replies) => Promise.all(replies));

/** The same on clients with ioredis's auto-pipelining. */
export const makePipelinedFloor: MakeSubject = (makeClients) =>
  floor('floor-auto-pipelined', makeClients({ enableAutoPipelining: true }), (replies) => Promise.all(replies));

/** The replies of a quorum awaited, those of the others left to come. */
export const makeQuorumFloor: MakeSubject = (makeClients) => floor('floor-at-quorum', makeClients(), firstQuorum);

/** Has no clock, no time-out and no clean-up: what it costs to send the commands and to read the replies. */
async function floor(
  name: SubjectName,
  clients: readonly Redis[],
  settle: (replies: Promise<unknown>[]) => Promise<readonly unknown[]>,
): Promise<Subject> {
  await Promise.all(clients.flatMap((client) => [EXTEND, RELEASE].map(({ lua }) => client.script('LOAD', lua))));
  return {
    name,
    worker: (resource) => ({
      async acquire() {
        const token = String(DEFAULT_RUNTIME.chance.draw().token);
        const votes = await settle(clients.map((client) => client.set(resource, token, 'PX', TTL_MS, 'NX')));
        if (votes.includes(null)) throw new Error(`The floor found ${resource} held: something is left from before.`);
        return {
          extend: () => settle(clients.map((client) => client.evalsha(EXTEND.sha, 1, resource, token, TTL_MS))),
          claimedMs: () => null,
          release: () => settle(clients.map((client) => client.evalsha(RELEASE.sha, 1, resource, token))),
        };
      },
    }),
    close: async () => {},
  };
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
