import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type Redis from 'ioredis';

const TTL_MS = 15_000;
const MARGIN_MS = 4_000;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class CampaignLease implements AsyncDisposable {
  readonly #controller = new AbortController();
  #usableUntil = 0;
  #expiryTimer?: NodeJS.Timeout;
  #renewTimer?: NodeJS.Timeout;
  #disposed = false;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    askedAt: number,
  ) {
    this.#extendTo(askedAt + TTL_MS - MARGIN_MS);
    this.#scheduleRenewal();
  }

  static async tryAcquire(redis: Redis, campaignId: string): Promise<CampaignLease | null> {
    const key = `campaign:${campaignId}:lease`;
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
    return reply === 'OK' ? new CampaignLease(redis, key, token, askedAt) : null;
  }

  /** Aborts some seconds before Redis would let the key go. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  check(): void {
    this.signal.throwIfAborted();
    if (performance.now() >= this.#usableUntil) this.#lose('lease ran out');
    this.signal.throwIfAborted();
  }

  #extendTo(usableUntil: number): void {
    this.#usableUntil = usableUntil;
    clearTimeout(this.#expiryTimer);
    this.#expiryTimer = setTimeout(() => this.#lose('lease ran out'), Math.max(0, usableUntil - performance.now()));
  }

  #scheduleRenewal(): void {
    this.#renewTimer = setTimeout(() => void this.#renew(), TTL_MS / 5);
  }

  async #renew(): Promise<void> {
    const askedAt = performance.now();
    try {
      const kept = await this.redis.eval(RENEW, 1, this.key, this.token, TTL_MS);
      if (this.#disposed || this.signal.aborted) return;
      if (kept !== 1) return this.#lose('lease taken over');
      this.#extendTo(askedAt + TTL_MS - MARGIN_MS);
    } catch (err) {
      console.warn('lease renewal failed, will try again', this.key, err);
    }
    if (!this.#disposed && !this.signal.aborted) this.#scheduleRenewal();
  }

  #lose(reason: string): void {
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#expiryTimer);
    this.#controller.abort(new Error(`${this.key}: ${reason}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#expiryTimer);
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch((err) => console.warn('not released', this.key, err));
  }
}

export interface SpendStore {
  budget(campaignId: string, signal: AbortSignal): Promise<{ remainingCents: number; version: number }>;
  unbilledClicks(campaignId: string, limit: number, signal: AbortSignal): Promise<Array<{ id: string; cents: number }>>;
  /** One transaction: marks the clicks billed, stores the rest; throws if the version has moved on. */
  bill(
    update: { campaignId: string; clickIds: string[]; remainingCents: number; expectedVersion: number },
    signal: AbortSignal,
  ): Promise<void>;
}

/** Bills the clicks of a campaign until none are left. False when another worker is at it. */
export async function billCampaign(redis: Redis, store: SpendStore, campaignId: string): Promise<boolean> {
  await using lease = await CampaignLease.tryAcquire(redis, campaignId);
  if (!lease) return false;

  for (;;) {
    const clicks = await store.unbilledClicks(campaignId, 500, lease.signal);
    if (clicks.length === 0) return true;

    const { remainingCents, version } = await store.budget(campaignId, lease.signal);
    const cost = clicks.reduce((sum, click) => sum + click.cents, 0);

    lease.check();
    await store.bill(
      { campaignId, clickIds: clicks.map((c) => c.id), remainingCents: Math.max(0, remainingCents - cost), expectedVersion: version },
      lease.signal,
    );
  }
}
