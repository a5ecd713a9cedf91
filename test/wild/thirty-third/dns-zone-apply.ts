import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

interface Held {
  key: string;
  token: string;
  validMs: number;
}

export function lockNodesFromEnv(): Redis[] {
  const urls = (process.env.LOCK_REDIS_URLS ?? '').split(',').map((u) => u.trim()).filter(Boolean);
  return urls.map((url) => {
    const node = new Redis(url, {
      commandTimeout: 300,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
    });
    node.on('error', (err) => console.warn(`lock node ${url}: ${err.message}`));
    return node;
  });
}

/** Lock over several independent Redis nodes, held by majority. */
export class QuorumLock {
  readonly #nodes: Redis[];
  readonly #ttlMs: number;

  constructor(nodes: Redis[], ttlMs: number) {
    if (nodes.length < 3) throw new Error('a quorum lock needs three nodes or more');
    this.#nodes = nodes;
    this.#ttlMs = ttlMs;
  }

  async acquire(resource: string): Promise<Held | null> {
    const key = `qlock:${resource}`;
    const token = randomUUID();
    const startedAt = performance.now();
    const replies = await Promise.allSettled(
      this.#nodes.map((node) => node.set(key, token, 'PX', this.#ttlMs, 'NX')),
    );

    const answers = replies.filter((r) => r.status === 'fulfilled');
    const votes = answers.filter((r) => r.value === 'OK').length;
    const quorum = Math.floor(answers.length / 2) + 1;
    const drift = this.#ttlMs * 0.01 + 2;
    const validMs = this.#ttlMs - (performance.now() - startedAt) - drift;

    if (votes >= quorum && validMs > 0) return { key, token, validMs };
    await this.release({ key, token, validMs: 0 });
    return null;
  }

  async release({ key, token }: Held): Promise<void> {
    await Promise.allSettled(this.#nodes.map((node) => node.eval(RELEASE, 1, key, token)));
  }
}

export interface DnsRecord {
  name: string;
  type: string;
  value: string;
}

export interface DnsApi {
  list(zone: string, signal: AbortSignal): Promise<DnsRecord[]>;
  upsert(zone: string, record: DnsRecord, signal: AbortSignal): Promise<void>;
  remove(zone: string, record: DnsRecord, signal: AbortSignal): Promise<void>;
}

const id = (r: DnsRecord) => `${r.name}|${r.type}|${r.value}`;

/** Brings the zone to the wanted set of records. Null if somebody else is at it. */
export async function applyZone(
  lock: QuorumLock,
  api: DnsApi,
  zone: string,
  wanted: DnsRecord[],
): Promise<{ added: number; removed: number } | null> {
  const held = await lock.acquire(`dns:${zone}`);
  if (!held) return null;
  const signal = AbortSignal.timeout(Math.floor(held.validMs * 0.7));
  try {
    const existing = await api.list(zone, signal);
    const have = new Set(existing.map(id));
    const want = new Set(wanted.map(id));
    const missing = wanted.filter((r) => !have.has(id(r)));
    const surplus = existing.filter((r) => !want.has(id(r)));

    for (const record of missing) {
      signal.throwIfAborted();
      await api.upsert(zone, record, signal);
    }
    for (const record of surplus) {
      signal.throwIfAborted();
      await api.remove(zone, record, signal);
    }
    return { added: missing.length, removed: surplus.length };
  } finally {
    await lock.release(held);
  }
}
