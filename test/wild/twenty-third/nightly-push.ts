// Pushes the changed products to the shop API, a few per second, from exactly one machine.
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 2 });
const SOURCE = process.env.SOURCE_URL ?? 'http://localhost:8080';
const SHOP = process.env.SHOP_URL ?? 'http://localhost:8081';

const LOCK = '{push}:lock';
const CURSOR = '{push}:cursor';
const TTL = 30_000;
const BEAT = 6_000;
const REQUEST_BUDGET = 4_000;
const PER_SECOND = 5;

const IF_MINE = (body: string) => `if redis.call('get', KEYS[1]) == ARGV[1] then ${body} return 1 end return 0`;
const EXTEND = IF_MINE(`redis.call('pexpire', KEYS[1], ARGV[2])`);
const RELEASE = IF_MINE(`redis.call('del', KEYS[1])`);
const MOVE_CURSOR = IF_MINE(`redis.call('set', KEYS[2], ARGV[2])`);

class Lease {
  readonly token = randomUUID();
  #validUntil = 0;
  #gone = false;
  #inFlight = false;
  #timer: NodeJS.Timeout | undefined;

  async take(): Promise<boolean> {
    const at = performance.now();
    if ((await redis.set(LOCK, this.token, 'PX', TTL, 'NX')) !== 'OK') return false;
    this.#validUntil = at + TTL - 1_000;
    this.#timer = setInterval(() => void this.#beat(), BEAT);
    return true;
  }

  /** Milliseconds for which nobody else can own the lock. */
  left(): number {
    return this.#gone ? 0 : this.#validUntil - performance.now();
  }

  async #beat() {
    if (this.#inFlight || this.#gone) return;
    this.#inFlight = true;
    const at = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, LOCK, this.token, TTL);
      if (ok === 1) this.#validUntil = at + TTL - 1_000;
      else this.#gone = true;
    } catch (err) {
      // left() keeps shrinking, that is all we need
      console.warn('heartbeat failed', err);
    } finally {
      this.#inFlight = false;
    }
  }

  async drop() {
    clearInterval(this.#timer);
    await redis.eval(RELEASE, 1, LOCK, this.token);
  }
}

type Product = { id: string; rev: string };

async function page(after: string): Promise<Product[]> {
  const res = await fetch(`${SOURCE}/changes?after=${encodeURIComponent(after)}&limit=50`, {
    signal: AbortSignal.timeout(REQUEST_BUDGET),
  });
  if (!res.ok) throw new Error(`source said ${res.status}`);
  return (await res.json()) as Product[];
}

async function push(p: Product) {
  // Repeating or delaying a PUT is harmless: the shop ignores a revision that is not newer than its own.
  const res = await fetch(`${SHOP}/products/${p.id}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json', 'idempotency-key': `${p.id}:${p.rev}` },
    body: JSON.stringify(p),
    signal: AbortSignal.timeout(REQUEST_BUDGET),
  });
  if (!res.ok) throw new Error(`shop said ${res.status} for ${p.id}`);
}

async function main() {
  const lease = new Lease();
  if (!(await lease.take())) return console.log('another machine is on it');
  try {
    let cursor = (await redis.get(CURSOR)) ?? '';
    for (let items = await page(cursor); items.length > 0; items = await page(cursor)) {
      for (const p of items) {
        // never start a request which could outlive the lock
        if (lease.left() < REQUEST_BUDGET + 1_000) throw new Error('lock lost, stopping');
        await push(p);
        if ((await redis.eval(MOVE_CURSOR, 2, LOCK, CURSOR, lease.token, p.rev)) !== 1) {
          throw new Error('lock lost, cursor not moved');
        }
        cursor = p.rev;
        await sleep(1_000 / PER_SECOND);
      }
    }
  } finally {
    await lease.drop().catch(() => {});
  }
}

main()
  .catch((err) => {
    console.error(err);
    process.exitCode = 1;
  })
  .finally(() => redis.disconnect());
