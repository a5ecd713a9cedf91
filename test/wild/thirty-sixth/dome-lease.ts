import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { setTimeout as nap } from 'node:timers/promises';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 1,
  commandTimeout: 2_000,
});

const STAY = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;

const LEAVE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

const STAY_MS = 16_000;
const SLACK_MS = 1_500;

export class DomeLease implements AsyncDisposable {
  readonly #key: string;
  readonly id: string;
  readonly #gone = new AbortController();
  readonly #pulse: NodeJS.Timeout;
  #goodUntil: number;

  private constructor(key: string, id: string, goodUntil: number) {
    this.#key = key;
    this.id = id;
    this.#goodUntil = goodUntil;
    this.#pulse = setInterval(() => void this.#beat(), STAY_MS / 4);
  }

  static async take(name: string, patience = 30_000): Promise<DomeLease> {
    const key = `dome:${name}`;
    const id = randomUUID();
    const giveUp = performance.now() + patience;
    do {
      const sent = performance.now();
      if (await redis.set(key, id, 'PX', STAY_MS, 'NX')) {
        return new DomeLease(key, id, sent + STAY_MS - SLACK_MS);
      }
      await nap(200 + Math.random() * 300);
    } while (performance.now() < giveUp);
    throw new Error(`dome ${name} is being rendered elsewhere`);
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  check(): void {
    if (performance.now() >= this.#goodUntil) this.#gone.abort(new Error('lease ran out'));
    this.signal.throwIfAborted();
  }

  async #beat(): Promise<void> {
    const sent = performance.now();
    if (sent >= this.#goodUntil) {
      this.#gone.abort(new Error('lease ran out'));
      return;
    }
    try {
      const kept = await redis.eval(STAY, 1, this.#key, this.id, STAY_MS);
      if (kept === 1) this.#goodUntil = sent + STAY_MS - SLACK_MS;
      else this.#gone.abort(new Error('lease went to someone else'));
    } catch {
      // next beat tries again, goodUntil stays where it was
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#pulse);
    await redis.eval(LEAVE, 1, this.#key, this.id).catch(() => undefined);
  }
}

type FrameSource = (night: string, signal: AbortSignal) => AsyncIterable<Uint8Array>;

// Same star catalogue + same night gives the same bytes, the lock saves GPU hours.
export async function renderNight(night: string, frames: FrameSource): Promise<string> {
  await using lease = await DomeLease.take(night);
  const parts: Uint8Array[] = [];
  for await (const frame of frames(night, lease.signal)) {
    lease.check();
    parts.push(frame);
  }
  const scratch = `/srv/dome/.${night}.${lease.id}`;
  const target = `/srv/dome/${night}.show`;
  await writeFile(scratch, Buffer.concat(parts), { signal: lease.signal });
  lease.check();
  await rename(scratch, target);
  return target;
}
