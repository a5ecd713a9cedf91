import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';

// five independent Redis servers, no replication between them
const NODES = (process.env.LEASE_NODES ?? 'r1:6379,r2:6379,r3:6379,r4:6379,r5:6379').split(',');
const TTL_MS = 15_000;
const DRIFT_MS = 200 + TTL_MS * 0.01;
const RENEW_MS = 4_000;
const ASSIGN_TIMEOUT_MS = 2_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;
const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

function connect(addr: string): Redis {
  const [host, port] = addr.split(':');
  const node = new Redis({
    host,
    port: Number(port ?? 6379),
    commandTimeout: 400,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
  node.on('error', (err) => console.warn(`lease node ${addr}: ${err.message}`));
  return node;
}

export class QuorumLease {
  private readonly nodes = NODES.map(connect);
  private token = '';
  private validUntil = 0;

  constructor(private readonly key: string) {}

  /** True if the lease lasts at least `ms` longer. */
  heldFor(ms: number): boolean {
    return performance.now() + ms < this.validUntil;
  }

  async acquire(): Promise<boolean> {
    this.token = randomBytes(16).toString('hex');
    const { key, token } = this;
    const ok = await this.vote((n) => n.set(key, token, 'PX', TTL_MS, 'NX'), 'OK');
    if (!ok) await this.release();
    return ok;
  }

  async renew(): Promise<boolean> {
    const { key, token } = this;
    return this.vote((n) => n.eval(EXTEND, 1, key, token, TTL_MS), 1);
  }

  async release(): Promise<void> {
    this.validUntil = 0;
    const { key, token } = this;
    await Promise.allSettled(this.nodes.map((n) => n.eval(DROP, 1, key, token)));
  }

  private async vote(ask: (node: Redis) => Promise<unknown>, yes: unknown): Promise<boolean> {
    const startedAt = performance.now();
    const peers = this.nodes.filter((n) => n.status === 'ready');
    const needed = Math.floor(peers.length / 2) + 1;

    const answers = await Promise.allSettled(peers.map(ask));
    const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === yes).length;

    const until = startedAt + TTL_MS - DRIFT_MS;
    if (votes < needed || performance.now() >= until) return false;
    this.validUntil = until;
    return true;
  }
}

export interface ShardMap {
  unassigned(): Promise<string[]>;
  leastLoadedWorker(): Promise<string>;
  assign(shard: string, worker: string, opts: { timeoutMs: number }): Promise<void>;
}

export function startRebalancer(map: ShardMap, signal: AbortSignal): Promise<void> {
  const lease = new QuorumLease('leader:shard-rebalancer');

  return (async () => {
    while (!signal.aborted) {
      try {
        const leading = lease.heldFor(0) ? await lease.renew() : await lease.acquire();
        if (leading) {
          for (const shard of await map.unassigned()) {
            if (signal.aborted) break;
            const worker = await map.leastLoadedWorker();
            if (!lease.heldFor(ASSIGN_TIMEOUT_MS + 1_000)) break;
            await map.assign(shard, worker, { timeoutMs: ASSIGN_TIMEOUT_MS });
          }
        }
      } catch (err) {
        console.error('rebalancer round failed', err);
      }
      await new Promise((r) => setTimeout(r, RENEW_MS * (0.8 + Math.random() * 0.4)));
    }
    await lease.release();
  })();
}
