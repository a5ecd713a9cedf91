import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

export async function connect(): Promise<Client> {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on("error", (err) => console.error("redis:", err));
  await client.connect();
  return client;
}

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class LockTimeout extends Error {}
export class LockExpired extends Error {}

export class RedisLock implements AsyncDisposable {
  readonly signal: AbortSignal;

  private constructor(
    private readonly client: Client,
    readonly key: string,
    private readonly token: string,
    private readonly deadline: number,
  ) {
    this.signal = AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now())));
  }

  static async acquire(client: Client, key: string, ttlMs: number, waitMs: number): Promise<RedisLock> {
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const token = randomUUID();
      const sentAt = performance.now();
      let reply: unknown;
      try {
        reply = await client.set(key, token, { NX: true, PX: ttlMs });
      } catch (err) {
        // the reply is missing, the key may be there
        void client.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => {});
        throw err;
      }
      if (reply === "OK") {
        const lock = new RedisLock(client, key, token, sentAt + ttlMs - 100);
        if (performance.now() < lock.deadline) return lock;
        await lock[Symbol.asyncDispose]();
      }
      if (performance.now() >= giveUpAt) throw new LockTimeout(key);
      await sleep(30 + Math.random() * 90);
    }
  }

  assertHeld(): void {
    if (this.signal.aborted || performance.now() >= this.deadline) throw new LockExpired(this.key);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const release = this.client
      .eval(RELEASE, { keys: [this.key], arguments: [this.token] })
      .catch((err) => console.warn(`release ${this.key}:`, err));
    // without a connection there is nothing to wait for once the TTL is over
    const left = Math.max(0, this.deadline - performance.now()) + 100;
    await Promise.race([release, sleep(left, undefined, { ref: false })]);
  }
}

export interface InvoiceStore {
  lastNumber(tenant: string, signal: AbortSignal): Promise<number>;
  /** unique index on (tenant, number) */
  insert(row: { tenant: string; number: number; totalCents: number }, signal: AbortSignal): Promise<void>;
}

export async function issueInvoice(client: Client, store: InvoiceStore, tenant: string, totalCents: number) {
  await using lock = await RedisLock.acquire(client, `invoice-no:${tenant}`, 10_000, 5_000);
  const number = (await store.lastNumber(tenant, lock.signal)) + 1;
  lock.assertHeld();
  await store.insert({ tenant, number, totalCents }, lock.signal);
  return number;
}
