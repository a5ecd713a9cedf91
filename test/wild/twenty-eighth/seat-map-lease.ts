import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

/**
 * Exclusive editing of a show's seat map (re-numbering rows, blocking seats for the
 * orchestra, ...). The lease is held for as long as the edit runs and renewed meanwhile.
 */

const TTL_MS = 24_000;
const BEAT_MS = 6_000;
const BEAT_TIMEOUT_MS = 4_000;

const EXTEND = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`;

type Client = Pick<RedisClientType, 'set' | 'eval'>;

function timeout<T>(p: Promise<T>, ms: number): Promise<T> {
  let t: NodeJS.Timeout;
  const limit = new Promise<never>((_, reject) => {
    t = setTimeout(() => reject(new Error(`no answer in ${ms}ms`)), ms);
  });
  return Promise.race([p, limit]).finally(() => clearTimeout(t!));
}

export class SeatMapLease implements AsyncDisposable {
  readonly #client: Client;
  readonly #key: string;
  readonly #token: string;
  readonly #gone = new AbortController();
  #goodUntil: number;
  #timer: NodeJS.Timeout | undefined;
  #disposed = false;

  private constructor(client: Client, key: string, token: string, goodUntil: number) {
    this.#client = client;
    this.#key = key;
    this.#token = token;
    this.#goodUntil = goodUntil;
    this.#scheduleBeat();
  }

  static async take(client: Client, showId: string): Promise<SeatMapLease | null> {
    const key = `seatmap:${showId}:lease`;
    const token = randomUUID();
    const sentAt = Date.now();
    const reply = await client.set(key, token, { NX: true, PX: TTL_MS });
    return reply === 'OK' ? new SeatMapLease(client, key, token, sentAt + TTL_MS) : null;
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  assertHeld(): void {
    if (Date.now() >= this.#goodUntil) this.#lose('lease ran out');
    this.#gone.signal.throwIfAborted();
  }

  #scheduleBeat(): void {
    this.#timer = setTimeout(() => void this.#beat(), BEAT_MS);
  }

  async #beat(): Promise<void> {
    const sentAt = Date.now();
    try {
      const extended = await timeout(
        this.#client.eval(EXTEND, { keys: [this.#key], arguments: [this.#token, String(TTL_MS)] }),
        BEAT_TIMEOUT_MS,
      );
      if (this.#disposed || this.#gone.signal.aborted) return;
      if (Number(extended) !== 1) return this.#lose('lease was taken over');
      this.#goodUntil = sentAt + TTL_MS;
    } catch (err) {
      if (this.#disposed || this.#gone.signal.aborted) return;
      console.warn(`[seatmap] ${this.#key}: beat failed: ${(err as Error).message}`);
      // Another beat with its timeout must still fit in before the key can lapse.
      if (Date.now() + BEAT_MS + BEAT_TIMEOUT_MS >= this.#goodUntil) return this.#lose('redis unreachable');
    }
    this.#scheduleBeat();
  }

  #lose(why: string): void {
    clearTimeout(this.#timer);
    if (!this.#gone.signal.aborted) this.#gone.abort(new Error(`${this.#key}: ${why}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#timer);
    try {
      await this.#client.eval(RELEASE, { keys: [this.#key], arguments: [this.#token] });
    } catch (err) {
      console.warn(`[seatmap] ${this.#key}: release failed, it will lapse: ${(err as Error).message}`);
    }
  }
}

export interface SeatMap {
  version: number;
  rows: Record<string, string[]>;
}

export interface SeatMapStore {
  load(showId: string, signal: AbortSignal): Promise<SeatMap>;
  /** Rejects if the stored version is no longer `expectedVersion`. */
  save(showId: string, map: SeatMap, expectedVersion: number, signal: AbortSignal): Promise<void>;
}

export async function editSeatMap(
  client: Client,
  store: SeatMapStore,
  showId: string,
  edit: (map: SeatMap, signal: AbortSignal) => Promise<SeatMap>,
): Promise<'saved' | 'locked'> {
  await using lease = await SeatMapLease.take(client, showId);
  if (!lease) return 'locked';

  const before = await store.load(showId, lease.signal);
  const after = await edit(structuredClone(before), lease.signal);
  lease.assertHeld();
  await store.save(showId, { ...after, version: before.version + 1 }, before.version, lease.signal);
  return 'saved';
}
