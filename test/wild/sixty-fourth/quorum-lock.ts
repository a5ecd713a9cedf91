import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

/** Independent masters, two per data centre. No replication between them. */
export const LOCK_NODES = [
  'redis://lock-a1.internal:6379',
  'redis://lock-a2.internal:6379',
  'redis://lock-b1.internal:6379',
  'redis://lock-b2.internal:6379',
];

const COMPARE_AND_DELETE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const CLOCK_DRIFT_FACTOR = 0.01;
const NODE_TIMEOUT_MS = 100;

export interface QuorumLease {
  resource: string;
  token: string;
  /** performance.now() until which the work has to be finished */
  validUntil: number;
}

export class QuorumLock {
  private readonly quorum: number;

  private constructor(private readonly clients: Client[]) {
    this.quorum = Math.ceil(clients.length / 2);
  }

  static async connect(urls: string[] = LOCK_NODES): Promise<QuorumLock> {
    const clients = urls.map((url) => {
      const client = createClient({ url, disableOfflineQueue: true });
      client.on('error', (err: Error) => console.warn(`lock node ${url}: ${err.message}`));
      // Not awaited to the end: a node may be down while we start.
      client.connect().catch(() => {});
      return client;
    });
    await delay(500);
    return new QuorumLock(clients as Client[]);
  }

  /** One node's answer; errors and slow nodes count as "no". */
  private async ask(question: Promise<boolean>): Promise<boolean> {
    const timeout = delay(NODE_TIMEOUT_MS, false);
    return Promise.race([question.catch(() => false), timeout]);
  }

  async tryAcquire(resource: string, ttl: number): Promise<QuorumLease | null> {
    const token = randomUUID();
    const start = performance.now();

    const answers = await Promise.all(
      this.clients.map((client) =>
        this.ask(
          client.set(resource, token, { NX: true, PX: ttl }).then((reply) => reply === 'OK'),
        ),
      ),
    );

    const granted = answers.filter((yes) => yes).length;
    const drift = ttl * CLOCK_DRIFT_FACTOR + 2;
    const validUntil = start + ttl - drift;

    if (granted >= this.quorum && performance.now() < validUntil) {
      return { resource, token, validUntil };
    }
    await this.releaseEverywhere(resource, token);
    return null;
  }

  async acquire(resource: string, ttl: number, retries = 20): Promise<QuorumLease> {
    for (let i = 0; i <= retries; i++) {
      const lease = await this.tryAcquire(resource, ttl);
      if (lease) return lease;
      await delay(100 + Math.random() * 200);
    }
    throw new Error(`Could not lock ${resource}`);
  }

  release(lease: QuorumLease): Promise<void> {
    return this.releaseEverywhere(lease.resource, lease.token);
  }

  private async releaseEverywhere(resource: string, token: string): Promise<void> {
    await Promise.all(
      this.clients.map((client) =>
        this.ask(
          client
            .eval(COMPARE_AND_DELETE, { keys: [resource], arguments: [token] })
            .then((n) => n === 1),
        ),
      ),
    );
  }
}

/** Moves the DNS record of the active site; never to be done by two at once. */
export async function switchSite(lock: QuorumLock, dnsApi: string, target: string): Promise<void> {
  const lease = await lock.acquire('lock:site-switch', 20_000);
  try {
    const left = Math.floor(lease.validUntil - performance.now() - 1_000);
    const res = await fetch(`${dnsApi}/records/www`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ value: target }),
      signal: AbortSignal.timeout(Math.max(1, left)),
    });
    if (!res.ok) throw new Error(`DNS API: ${res.status}`);
  } finally {
    await lock.release(lease);
  }
}
