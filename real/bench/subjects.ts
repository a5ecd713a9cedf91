import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { REFERENCE, scriptsOf } from '../../core/index.js';
import { drawChance } from '../chance.js';
import type { Provision } from '../provisioner/index.js';
import { Redlock } from '../redlock.js';
import type { SubjectName } from './types.js';

/** Long enough that no key of a benchmark expires while it counts. */
const TTL_MS = 30_000;

/** Something that locks and unlocks. */
export interface Subject {
  readonly name: SubjectName;
  /** Acquires and releases `resource` once. */
  cycle(resource: string): Promise<void>;
  close(): Promise<void>;
}

/** The lock of this package, with default settings but for the retries: nobody contends here. */
export function lockstepSubject(provision: Provision): Subject {
  const clients = provision.nodes.map((node) => node.client());
  const redlock = new Redlock(clients, { retryCount: 3, retryDelay: 20, retryJitter: 10 });
  return {
    name: 'lockstep',
    async cycle(resource) {
      const lock = await redlock.acquire([resource], TTL_MS);
      await lock.release();
    },
    async close() {
      await redlock.quit();
      for (const client of clients) client.disconnect();
    },
  };
}

/** The least that a lock on these nodes can do: SET on all, all replies, then the release script on all. */
export async function floorSubject(provision: Provision): Promise<Subject> {
  const clients = provision.nodes.map((node) => node.client());
  const lua = scriptsOf(REFERENCE).release;
  const sha = createHash('sha1').update(lua).digest('hex');
  await Promise.all(clients.map((client) => client.script('LOAD', lua)));
  return {
    name: 'floor',
    async cycle(resource) {
      const token = String(drawChance().token);
      const votes = await Promise.all(clients.map((client: Redis) => client.set(resource, token, 'PX', TTL_MS, 'NX')));
      if (votes.includes(null)) throw new Error(`The floor found ${resource} held: something is left from before.`);
      await Promise.all(clients.map((client: Redis) => client.evalsha(sha, 1, resource, token)));
    },
    async close() {
      for (const client of clients) client.disconnect();
    },
  };
}
