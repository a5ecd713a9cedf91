import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Read-write leases on documents. Many exporters may read a document at a time; the
 * compactor must be alone. A lease lives LEASE_MS and is not extended: holders work
 * under `lease.signal` and call `lease.check()` before they write.
 *
 * Known and accepted: readers coming in a steady stream keep a writer out. The
 * compactor is then turned away and the scheduler comes back the next hour.
 */
const LEASE_MS = 30_000;
const SAFETY_MS = 3_000;

// KEYS: writer, readers   ARGV: token, lease ms
const TAKE_READ = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const TAKE_WRITE = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const DROP_WRITE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class DocumentBusy extends Error {
  constructor(docId: string, mode: string) {
    super(`document ${docId}: no ${mode} lease`);
    this.name = 'DocumentBusy';
  }
}

export class Lease implements AsyncDisposable {
  readonly #end: number;
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(
    askedAt: number,
    private readonly drop: () => Promise<unknown>,
  ) {
    this.#end = askedAt + LEASE_MS - SAFETY_MS;
    this.#timer = setTimeout(() => this.#expire(), Math.max(0, this.#end - performance.now()));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  check(): void {
    if (performance.now() >= this.#end) this.#expire();
    this.signal.throwIfAborted();
  }

  #expire(): void {
    this.#controller.abort(new Error('document lease ran out'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    try {
      await this.drop();
    } catch {
      // the key runs out by itself; what was done under the lease stays done
    }
  }
}

export class DocumentLeases {
  constructor(private readonly redis: Redis) {}

  #keys(docId: string): [string, string] {
    return [`doc:{${docId}}:writer`, `doc:{${docId}}:readers`];
  }

  async read(docId: string): Promise<Lease> {
    const [writer, readers] = this.#keys(docId);
    const token = randomUUID();
    const askedAt = performance.now();
    if ((await this.redis.eval(TAKE_READ, 2, writer, readers, token, LEASE_MS)) !== 1) {
      throw new DocumentBusy(docId, 'read');
    }
    return new Lease(askedAt, () => this.redis.zrem(readers, token));
  }

  async write(docId: string): Promise<Lease> {
    const [writer, readers] = this.#keys(docId);
    const token = randomUUID();
    const askedAt = performance.now();
    if ((await this.redis.eval(TAKE_WRITE, 2, writer, readers, token, LEASE_MS)) !== 1) {
      throw new DocumentBusy(docId, 'write');
    }
    return new Lease(askedAt, () => this.redis.eval(DROP_WRITE, 1, writer, token));
  }
}

export interface DocumentStore {
  chunks(docId: string, signal: AbortSignal): Promise<{ revision: number; parts: Uint8Array[] }>;
  /** compare-and-set on the revision; replaced parts stay readable until the nightly cleanup */
  replace(docId: string, revision: number, parts: Uint8Array[], signal: AbortSignal): Promise<boolean>;
}

export async function compactDocument(leases: DocumentLeases, store: DocumentStore, docId: string): Promise<'compacted' | 'busy' | 'changed'> {
  try {
    await using lease = await leases.write(docId);
    const { revision, parts } = await store.chunks(docId, lease.signal);
    const merged = new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
    lease.check();
    return (await store.replace(docId, revision, [merged], lease.signal)) ? 'compacted' : 'changed';
  } catch (err) {
    if (err instanceof DocumentBusy) return 'busy';
    throw err;
  }
}

export async function exportDocument(
  leases: DocumentLeases,
  store: DocumentStore,
  docId: string,
  sink: (part: Uint8Array) => Promise<void>,
): Promise<number> {
  let parts: Uint8Array[];
  {
    // chunks are copied while leased; sending them may take as long as it wants
    await using lease = await leases.read(docId);
    ({ parts } = await store.chunks(docId, lease.signal));
    lease.check();
  }
  for (const part of parts) await sink(part);
  return parts.length;
}
