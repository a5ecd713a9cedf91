import Redis from 'iovalkey';
import { randomUUID } from 'node:crypto';

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

// Five valkeys on five boxes, none replicates another, each with appendfsync always.
const nodes = (process.env.LOCK_NODES ?? '').split(',').filter(Boolean).map((addr) => {
  const [host, port] = addr.split(':');
  const node = new Redis({
    host,
    port: Number(port ?? 6379),
    commandTimeout: 150,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
  node.on('error', () => {});
  return node;
});
const QUORUM = Math.floor(nodes.length / 2) + 1;

const TTL_MS = 10_000;
const DRIFT_MS = TTL_MS * 0.01 + 2;
const STOP_EARLY_MS = 1_500;

async function ask(fn: (node: Redis) => Promise<boolean>): Promise<number> {
  const answers = await Promise.all(nodes.map((n) => fn(n).catch(() => false)));
  return answers.filter((yes) => yes).length;
}

export class MediaLock implements AsyncDisposable {
  readonly #ac = new AbortController();
  #validUntil: number;
  #stopTimer?: NodeJS.Timeout;
  #extendTimer?: NodeJS.Timeout;
  #disposed = false;

  private constructor(
    private readonly key: string,
    private readonly token: string,
    askedAt: number,
  ) {
    this.#validUntil = askedAt + TTL_MS - DRIFT_MS;
    this.#arm();
    this.#extendTimer = setTimeout(() => void this.#extend(), TTL_MS / 3);
  }

  static async acquire(asset: string): Promise<MediaLock | null> {
    if (nodes.length < 3) throw new Error('LOCK_NODES must name at least three nodes');
    const key = `media:${asset}`;
    const token = randomUUID();
    const askedAt = performance.now();
    const votes = await ask(async (n) => (await n.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK');

    const validFor = askedAt + TTL_MS - DRIFT_MS - performance.now();
    if (votes >= QUORUM && validFor > STOP_EARLY_MS) return new MediaLock(key, token, askedAt);

    await ask(async (n) => (await n.eval(UNLOCK, 1, key, token)) === 1);
    return null;
  }

  /** Fires STOP_EARLY_MS before the lock can be gone. */
  get signal(): AbortSignal {
    return this.#ac.signal;
  }

  #arm(): void {
    clearTimeout(this.#stopTimer);
    const ms = this.#validUntil - STOP_EARLY_MS - performance.now();
    const stop = () => this.#ac.abort(new Error(`${this.key}: lock is running out`));
    if (ms <= 0) stop();
    else this.#stopTimer = setTimeout(stop, ms);
  }

  async #extend(): Promise<void> {
    const askedAt = performance.now();
    const votes = await ask(async (n) => (await n.eval(EXTEND, 1, this.key, this.token, TTL_MS)) === 1);
    if (this.#disposed || this.signal.aborted) return;

    // short of a majority: keep the old end and try once more before it
    if (votes >= QUORUM) {
      this.#validUntil = askedAt + TTL_MS - DRIFT_MS;
      this.#arm();
    }
    this.#extendTimer = setTimeout(() => void this.#extend(), TTL_MS / 3);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#stopTimer);
    clearTimeout(this.#extendTimer);
    await ask(async (n) => (await n.eval(UNLOCK, 1, this.key, this.token)) === 1);
  }
}

export async function transcode(
  asset: string,
  segments: string[],
  encode: (segment: string, signal: AbortSignal) => Promise<Uint8Array>,
  publish: (segment: string, data: Uint8Array, opts: { timeoutMs: number }) => Promise<void>,
): Promise<boolean> {
  await using lock = await MediaLock.acquire(asset);
  if (!lock) return false;
  for (const segment of segments) {
    const data = await encode(segment, lock.signal);
    lock.signal.throwIfAborted();
    await publish(segment, data, { timeoutMs: 1_000 });
  }
  return true;
}
