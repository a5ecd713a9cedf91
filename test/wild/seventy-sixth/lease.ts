// Slides: "Explicit resource management is the best thing since async/await" (demo 3, Redis)
// needs TypeScript 5.2+ and `npm i redis@5`

import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
client.on('error', (err) => console.error('redis:', err.message));
await client.connect();

const IF_MINE = (command: string) => `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return ${command}
  end
  return 0`;
const RENEW = IF_MINE(`redis.call('pexpire', KEYS[1], ARGV[2])`);
const DROP = IF_MINE(`redis.call('del', KEYS[1])`);

export class NotAvailable extends Error {
  constructor(name: string) {
    super(`"${name}" is taken`);
  }
}

export class Lease implements AsyncDisposable {
  readonly #abort = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #goodUntil: number;

  private constructor(
    readonly name: string,
    private readonly token: string,
    private readonly ttl: number,
    since: number,
  ) {
    this.#goodUntil = since + ttl;
    this.#timer = setInterval(() => void this.#renew(), ttl / 5);
  }

  static async take(name: string, ttl = 10_000): Promise<Lease> {
    const token = randomUUID();
    const since = performance.now();
    const reply = await client.set(`lease:${name}`, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: ttl },
    });
    if (reply !== 'OK') throw new NotAvailable(name);
    return new Lease(name, token, ttl, since);
  }

  /** Fires when the lease can no longer be relied on. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async #renew(): Promise<void> {
    const at = performance.now();
    if (at > this.#goodUntil - this.ttl / 5) this.#abort.abort(new Error(`${this.name}: lease ran out`));
    if (this.#abort.signal.aborted) return;
    try {
      const ok = await client.eval(RENEW, {
        keys: [`lease:${this.name}`],
        arguments: [this.token, String(this.ttl)],
      });
      if (ok === 1) this.#goodUntil = Math.max(this.#goodUntil, at + this.ttl);
      else this.#abort.abort(new Error(`${this.name}: lease lost`));
    } catch (err) {
      console.warn(`${this.name}: renewal failed`, err);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    try {
      await client.eval(DROP, { keys: [`lease:${this.name}`], arguments: [this.token] });
    } catch (err) {
      console.warn(`${this.name}: not released, will expire`, err);
    }
  }
}

// And this is all that is left of the old try/finally pyramid:
export async function exclusively<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  await using lease = await Lease.take(name);
  return work(lease.signal);
}

// demo
//   await exclusively('reindex:movies', async (signal) => {
//     for await (const page of catalogue.pages({ signal })) await search.bulk(page, { signal });
//     await search.swapAlias('movies');
//   });
