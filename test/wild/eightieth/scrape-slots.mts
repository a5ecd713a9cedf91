import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { createClient } from 'redis';

const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local until_ = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not until_ or tonumber(until_) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`;

type Client = ReturnType<typeof createClient>;

export class Slot implements AsyncDisposable {
  readonly #abort = new AbortController();
  #pulse: NodeJS.Timeout;
  #deadline: NodeJS.Timeout;

  constructor(
    private readonly client: Client,
    private readonly key: string,
    private readonly id: string,
    private readonly leaseMs: number,
    takenAt: number,
  ) {
    this.#deadline = this.#arm(takenAt);
    this.#pulse = setInterval(() => void this.#keep(), leaseMs / 3);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  #arm(from: number): NodeJS.Timeout {
    const left = from + this.leaseMs * 0.9 - performance.now();
    return setTimeout(() => this.#abort.abort(new Error('slot lost')), Math.max(0, left));
  }

  async #keep(): Promise<void> {
    const asked = performance.now();
    try {
      const kept = await this.client.eval(KEEP, { keys: [this.key], arguments: [this.id, String(this.leaseMs)] });
      if (this.#abort.signal.aborted) return;
      clearTimeout(this.#deadline);
      if (kept === 1) this.#deadline = this.#arm(asked);
      else this.#abort.abort(new Error('slot lost'));
    } catch (err) {
      console.warn('slot not extended yet', err);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#pulse);
    clearTimeout(this.#deadline);
    this.#abort.abort(new Error('slot given back'));
    await this.client.zRem(this.key, this.id).catch((err) => console.warn('slot left to lapse', err));
  }
}

export async function takeSlot(client: Client, host: string, limit: number, leaseMs = 20_000): Promise<Slot> {
  const key = `slots:${host}`;
  for (;;) {
    const id = randomUUID();
    const asked = performance.now();
    const got = await client.eval(TAKE, { keys: [key], arguments: [id, String(limit), String(leaseMs)] });
    if (got === 1) return new Slot(client, key, id, leaseMs, asked);
    await wait(200 + Math.random() * 300);
  }
}

export async function scrape(client: Client, urls: string[], save: (url: string, html: string) => Promise<void>) {
  for (const url of urls) {
    await using slot = await takeSlot(client, new URL(url).host, 3);
    const signal = AbortSignal.any([slot.signal, AbortSignal.timeout(60_000)]);
    const res = await fetch(url, { signal, headers: { 'user-agent': 'pricebot/2.1' } });
    if (!res.ok) {
      console.warn(url, res.status);
      continue;
    }
    await save(url, await res.text());
  }
}
