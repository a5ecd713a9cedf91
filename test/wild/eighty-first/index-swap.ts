import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import { Client } from '@elastic/elasticsearch';

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class Lease implements AsyncDisposable {
  readonly #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    private deadline: number,
  ) {
    this.#plan();
  }

  static async take(redis: Redis, key: string, ttlMs: number): Promise<Lease | null> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
    return reply === 'OK' ? new Lease(redis, key, token, ttlMs, sentAt + ttlMs) : null;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  // Throws when the lease is known, or must be presumed, to be gone.
  check(): void {
    if (performance.now() > this.deadline - 1_000) this.#abort.abort(new Error(`lease ${this.key} ran out`));
    this.signal.throwIfAborted();
  }

  #plan(): void {
    if (this.#closed || this.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#tick(), this.ttlMs / 6);
  }

  async #tick(): Promise<void> {
    const guard = setTimeout(
      () => this.#abort.abort(new Error(`lease ${this.key} could not be renewed in time`)),
      Math.max(0, this.deadline - 1_000 - performance.now()),
    );
    try {
      const sentAt = performance.now();
      const renewed = await this.redis.eval(RENEW, 1, this.key, this.token, this.ttlMs);
      if (renewed === 1) this.deadline = sentAt + this.ttlMs;
      else this.#abort.abort(new Error(`lease ${this.key} was taken over`));
    } catch {
      if (performance.now() > this.deadline - 1_000) this.#abort.abort(new Error(`lease ${this.key} ran out`));
    } finally {
      clearTimeout(guard);
      this.#plan();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.redis.eval(DROP, 1, this.key, this.token).catch(() => undefined);
  }
}

export async function rebuildCatalogue(redis: Redis, es: Client, alias: string): Promise<boolean> {
  await using lease = await Lease.take(redis, `reindex:${alias}`, 30_000);
  if (!lease) return false;

  const current = Object.keys(await es.indices.getAlias({ name: alias }, { signal: lease.signal }))[0];
  const next = `${alias}-${randomUUID()}`;
  await es.indices.create({ index: next }, { signal: lease.signal });
  await es.reindex(
    { source: { index: `${alias}-source` }, dest: { index: next }, refresh: true },
    { signal: lease.signal, requestTimeout: '20m' },
  );

  lease.check();
  // must_exist makes the swap fail as a whole if the alias has moved since we looked.
  await es.indices.updateAliases(
    {
      actions: [
        { remove: { index: current, alias, must_exist: true } },
        { add: { index: next, alias } },
      ],
    },
    { signal: lease.signal },
  );
  return true;
}
