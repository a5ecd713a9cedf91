import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 *   await using lease = await berths.acquire('stock:7', 5000);
 *   for (const row of rows) { lease.check(); await save(row); }
 *
 * Leases are of fixed length - no extension on purpose. `signal` fires when the
 * time is up, `check()` throws from then on (and does not depend on a timer).
 */

const COMPARE_AND_DELETE = `
local v = redis.call('GET', KEYS[1])
if v and v == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const CLOCK_DRIFT = 0.01;

export class LeaseError extends Error {
  override name = 'LeaseError';
}

class Lease implements AsyncDisposable {
  #ends: number;
  #alarm: NodeJS.Timeout;
  #ctl = new AbortController();
  #drop: (() => Promise<void>) | null;
  readonly resource: string;

  constructor(resource: string, ends: number, drop: () => Promise<void>) {
    this.resource = resource;
    this.#ends = ends;
    this.#drop = drop;
    this.#alarm = setTimeout(
      () => this.#ctl.abort(new LeaseError(`lease on ${resource} is over`)),
      Math.max(0, Math.floor(ends - performance.now())),
    );
    this.#alarm.unref();
  }

  get signal(): AbortSignal {
    return this.#ctl.signal;
  }

  remaining(): number {
    if (this.#drop === null || this.#ctl.signal.aborted) return 0;
    return Math.max(0, this.#ends - performance.now());
  }

  isValid(): boolean {
    return this.remaining() > 0;
  }

  check(): void {
    if (!this.isValid()) throw new LeaseError(`lease on ${this.resource} is over`);
  }

  async release(): Promise<void> {
    const drop = this.#drop;
    if (!drop) return;
    this.#drop = null;
    clearTimeout(this.#alarm);
    this.#ctl.abort(new LeaseError(`lease on ${this.resource} was given back`));
    await drop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

export class Berths {
  #nodes: readonly Redis[];
  #replyMs: number;

  constructor(nodes: readonly Redis[], replyMs = 250) {
    this.#nodes = nodes;
    this.#replyMs = replyMs;
  }

  async #ask<T>(ms: number, call: (node: Redis) => Promise<T>): Promise<(T | Error)[]> {
    const one = (node: Redis) =>
      new Promise<T | Error>((resolve) => {
        const t = setTimeout(() => resolve(new Error('no reply')), ms);
        call(node)
          .catch((e: unknown) => (e instanceof Error ? e : new Error(String(e))))
          .then((r) => {
            clearTimeout(t);
            resolve(r);
          });
      });
    return Promise.all(this.#nodes.map(one));
  }

  async acquire(resource: string, ttlMs: number): Promise<Lease> {
    const key = `berth:${resource}`;
    const token = randomUUID();
    const from = performance.now();
    const patience = Math.min(this.#replyMs, ttlMs / 3);
    const drop = async () => {
      await this.#ask(this.#replyMs, (n) => n.eval(COMPARE_AND_DELETE, 1, key, token));
    };

    const replies = await this.#ask(patience, (n) => n.set(key, token, 'PX', ttlMs, 'NX'));
    const ends = from + ttlMs - ttlMs * CLOCK_DRIFT - 2;
    const granted = replies.filter((r) => r === 'OK').length;

    if (granted * 2 <= this.#nodes.length || performance.now() >= ends) {
      await drop();
      const errors = replies.filter((r) => r instanceof Error);
      throw new LeaseError(`${resource}: ${granted} of ${this.#nodes.length} nodes`, { cause: errors });
    }
    return new Lease(resource, ends, drop);
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Berths(nodes);
