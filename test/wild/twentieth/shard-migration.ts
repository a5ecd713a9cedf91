import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const openNode = (url: string) =>
  createClient({ url, disableOfflineQueue: true, socket: { connectTimeout: 1_000 } });

type Node = ReturnType<typeof openNode>;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface ClusterLockOptions {
  /** URLs of independent masters, an odd number of them. */
  urls: string[];
  ttlMs?: number;
  attempts?: number;
}

export interface Hold {
  key: string;
  token: string;
  /** On the monotonic clock. */
  validUntil: number;
}

export class ClusterLock {
  private readonly nodes: Node[];
  private readonly ttlMs: number;
  private readonly attempts: number;

  constructor({ urls, ttlMs = 20_000, attempts = 6 }: ClusterLockOptions) {
    this.ttlMs = ttlMs;
    this.attempts = attempts;
    this.nodes = urls.map((url) => {
      const node = openNode(url);
      node.on('error', (err) => console.warn('lock node', url, String(err)));
      return node;
    });
  }

  /** Does not wait for nodes which are down at the moment; they reconnect by themselves. */
  async connect(): Promise<void> {
    for (const node of this.nodes) void node.connect().catch(() => {});
    await sleep(1_000);
  }

  private async count(nodes: Node[], ask: (node: Node) => Promise<boolean>): Promise<number> {
    const replies = await Promise.all(
      nodes.map((node) =>
        Promise.race([ask(node), sleep(400, false, { ref: false })]).catch(() => false),
      ),
    );
    return replies.filter(Boolean).length;
  }

  async acquire(name: string): Promise<Hold | null> {
    const key = `migration:${name}`;
    for (let attempt = 0; attempt < this.attempts; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      // A node in the middle of a reconnect would only cost us the timeout.
      const reachable = this.nodes.filter((node) => node.isReady);
      const quorum = Math.floor(reachable.length / 2) + 1;

      const granted = await this.count(
        reachable,
        async (node) =>
          (await node.set(key, token, {
            condition: 'NX',
            expiration: { type: 'PX', value: this.ttlMs },
          })) === 'OK',
      );

      const validUntil = startedAt + this.ttlMs - (this.ttlMs * 0.01 + 2);
      if (granted >= quorum && performance.now() < validUntil) {
        return { key, token, validUntil };
      }
      await this.release({ key, token, validUntil: 0 });
      await sleep(100 + Math.random() * 400);
    }
    return null;
  }

  async release({ key, token }: Hold): Promise<void> {
    await this.count(
      this.nodes,
      async (node) => (await node.eval(RELEASE, { keys: [key], arguments: [token] })) === 1,
    );
  }
}

const STEP_MS = 2_000;

/** Moves buckets until the hold is nearly over; the next round goes on from there. */
export async function migrateShard(
  lock: ClusterLock,
  shard: string,
  buckets: () => Promise<string[]>,
  move: (bucket: string, signal: AbortSignal) => Promise<void>,
): Promise<number> {
  const hold = await lock.acquire(shard);
  if (!hold) return 0;
  let moved = 0;
  try {
    for (const bucket of await buckets()) {
      if (performance.now() + STEP_MS + 500 > hold.validUntil) break;
      await move(bucket, AbortSignal.timeout(STEP_MS));
      moved++;
    }
  } finally {
    await lock.release(hold);
  }
  return moved;
}
