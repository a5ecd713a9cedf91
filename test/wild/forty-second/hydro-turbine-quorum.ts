import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

// Lock for the turbine start sequence, spread over the four station Redis
// servers (independent masters, one per dam).
const HOSTS = (process.env.LOCK_HOSTS ?? 'dam-n.lan,dam-e.lan,dam-s.lan,dam-w.lan').split(',');

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

const TTL_MS = 60_000;
const NODE_TIMEOUT_MS = 300;
const DRIFT_MS = TTL_MS * 0.01 + 2;

export interface Grant {
  resource: string;
  value: string;
  validUntil: number;
}

export class TurbineLock {
  private readonly nodes: Redis[];
  private readonly needed: number;

  constructor(hosts: string[] = HOSTS) {
    this.nodes = hosts.map(
      (host) =>
        new Redis({
          host,
          commandTimeout: NODE_TIMEOUT_MS,
          maxRetriesPerRequest: 0,
          enableOfflineQueue: false,
        }),
    );
    for (const n of this.nodes) n.on('error', (e) => console.warn('lock node', n.options.host, e.message));
    this.needed = Math.ceil(this.nodes.length / 2);
  }

  async lock(resource: string, tries = 10): Promise<Grant> {
    for (let i = 0; i < tries; i++) {
      const value = randomBytes(20).toString('hex');
      const start = performance.now();
      const votes = await Promise.all(this.nodes.map((n) => this.setOn(n, resource, value)));
      const validUntil = start + TTL_MS - DRIFT_MS;

      if (votes.filter(Boolean).length >= this.needed && performance.now() < validUntil) {
        return { resource, value, validUntil };
      }
      await this.unlock({ resource, value, validUntil: 0 });
      await sleep(150 + Math.random() * 350);
    }
    throw new Error(`${resource} is locked`);
  }

  async unlock(grant: Grant): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, grant.resource, grant.value)));
  }

  private async setOn(node: Redis, resource: string, value: string): Promise<boolean> {
    try {
      return (await node.set(resource, value, 'PX', TTL_MS, 'NX')) === 'OK';
    } catch {
      return false;
    }
  }
}

const turbineLock = new TurbineLock();

async function scada(path: string): Promise<void> {
  const res = await fetch(`${process.env.SCADA_URL}${path}`, { method: 'POST', signal: AbortSignal.timeout(8_000) });
  if (!res.ok) throw new Error(`${path}: ${res.status}`);
}

/** Four SCADA calls of at most 8s each. */
export async function startTurbine(unit: string): Promise<void> {
  const grant = await turbineLock.lock(`turbine:${unit}:sequence`);
  try {
    for (const step of ['open-bypass', 'equalise', 'open-gate', 'synchronise']) {
      if (performance.now() > grant.validUntil - 10_000) throw new Error(`${unit}: no time left for ${step}`);
      await scada(`/units/${unit}/${step}`);
    }
  } finally {
    await turbineLock.unlock(grant);
  }
}
