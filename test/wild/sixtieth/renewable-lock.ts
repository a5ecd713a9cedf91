import { randomUUID } from 'node:crypto';
import { createClient, defineScript } from 'redis';
import type { CommandParser } from '@redis/client';

const unlock = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('DEL', KEYS[1])
    end
    return 0`,
  parseCommand(parser: CommandParser, key: string, token: string) {
    parser.pushKey(key);
    parser.push(token);
  },
  transformReply: (reply: unknown) => Number(reply),
});

export function createLockClient(url: string) {
  const client = createClient({ url, scripts: { unlock } });
  client.on('error', (err) => console.error('redis error', err));
  return client;
}

type LockClient = ReturnType<typeof createLockClient>;

/** A lock that is extended in the background for as long as the work takes. */
export class RenewableLock {
  private readonly controller = new AbortController();
  private token = '';
  private renewTimer?: NodeJS.Timeout;
  private expiryTimer?: NodeJS.Timeout;

  constructor(
    private readonly client: LockClient,
    private readonly key: string,
    private readonly ttlMs = 30_000,
  ) {}

  /** Aborted when the lock could not be kept. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  async acquire(): Promise<boolean> {
    this.token = randomUUID();
    const sentAt = Date.now();
    const reply = await this.client.set(this.key, this.token, { NX: true, PX: this.ttlMs });
    if (reply !== 'OK') return false;
    this.guard(sentAt);
    this.renewTimer = setInterval(() => void this.renew(), this.ttlMs / 3);
    return true;
  }

  private guard(sentAt: number): void {
    clearTimeout(this.expiryTimer);
    const left = sentAt + this.ttlMs - 2_000 - Date.now();
    this.expiryTimer = setTimeout(() => this.lose('no renewal in time'), Math.max(0, left));
  }

  private async renew(): Promise<void> {
    const sentAt = Date.now();
    try {
      const extended = await this.client.pExpire(this.key, this.ttlMs);
      if (!this.renewTimer) return;
      // the key is gone, somebody else may take it at any moment
      if (!extended) return this.lose('key has expired');
      this.guard(sentAt);
    } catch (err) {
      console.warn(`could not extend ${this.key}, trying again`, err);
    }
  }

  private lose(reason: string): void {
    this.stop();
    this.controller.abort(new Error(`lost lock ${this.key}: ${reason}`));
  }

  private stop(): void {
    clearInterval(this.renewTimer);
    clearTimeout(this.expiryTimer);
    this.renewTimer = undefined;
  }

  async release(): Promise<void> {
    this.stop();
    await this.client.unlock(this.key, this.token);
  }
}

export async function migrateTenant(client: LockClient, tenant: string, steps: Array<(s: AbortSignal) => Promise<void>>) {
  const lock = new RenewableLock(client, `migrate:${tenant}`);
  if (!(await lock.acquire())) throw new Error(`migration of ${tenant} is already running`);
  try {
    for (const step of steps) {
      lock.signal.throwIfAborted();
      await step(lock.signal);
    }
  } finally {
    await lock.release().catch((err) => console.warn('release failed', err));
  }
}
