import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

/** Assigns open orders of one warehouse zone to pickers, one planner at a time. */
const TTL_MS = 20_000;
const RENEW_MS = 5_000;
const SAFETY_MS = 4_000;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

type Client = Pick<RedisClientType, 'set' | 'eval'>;

export class ZoneLease implements AsyncDisposable {
  private readonly over = new AbortController();
  private readonly watchdog: NodeJS.Timeout;
  private readonly renewer: NodeJS.Timeout;

  /** Aborts when the lease is lost, may have run out, or has been given back. */
  readonly signal = this.over.signal;

  private constructor(
    private readonly client: Client,
    private readonly key: string,
    private readonly token: string,
    private validUntil: number,
  ) {
    this.watchdog = setInterval(() => this.checkTime(), 200);
    this.renewer = setInterval(() => void this.renew(), RENEW_MS);
  }

  /** Null when another planner has the zone. */
  static async acquire(client: Client, zone: string): Promise<ZoneLease | null> {
    const key = `lock:pick-zone:${zone}`;
    const token = randomUUID();
    const sentAt = Date.now();
    try {
      const reply = await client.set(key, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: TTL_MS },
      });
      if (reply !== 'OK') return null;
    } catch (err) {
      await release(client, key, token);
      throw err;
    }
    return new ZoneLease(client, key, token, sentAt + TTL_MS - SAFETY_MS);
  }

  /** Call before each effect. */
  ensureHeld(): void {
    this.checkTime();
    this.signal.throwIfAborted();
  }

  private checkTime(): void {
    if (Date.now() >= this.validUntil) this.over.abort(new Error(`${this.key} ran out`));
  }

  private async renew(): Promise<void> {
    if (this.signal.aborted) return;
    const sentAt = Date.now();
    try {
      const kept = await this.client.eval(RENEW, {
        keys: [this.key],
        arguments: [this.token, String(TTL_MS)],
      });
      if (kept === 1) this.validUntil = Math.max(this.validUntil, sentAt + TTL_MS - SAFETY_MS);
      else this.over.abort(new Error(`${this.key} was lost`));
    } catch (err) {
      console.warn('renewal failed; the next one may get through', this.key, err);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.watchdog);
    clearInterval(this.renewer);
    this.over.abort(new Error(`${this.key} was given back`));
    await release(this.client, this.key, this.token);
  }
}

async function release(client: Client, key: string, token: string): Promise<void> {
  try {
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn('lease left to its TTL', key, err);
  }
}

export interface WaveStore {
  openOrders(zone: string, opts: { signal: AbortSignal }): Promise<string[]>;
  /** Rejects, with nothing written, when the signal aborts. */
  assign(orderId: string, zone: string, opts: { signal: AbortSignal }): Promise<void>;
}

export async function planWave(client: Client, store: WaveStore, zone: string) {
  await using lease = await ZoneLease.acquire(client, zone);
  if (!lease) return { planned: false as const, reason: 'zone is being planned' };

  const orders = await store.openOrders(zone, { signal: lease.signal });
  for (const orderId of orders) {
    lease.ensureHeld();
    await store.assign(orderId, zone, { signal: lease.signal });
  }
  return { planned: true as const, count: orders.length };
}
