import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
client.on('error', (err: Error) => console.error('redis', err.message));

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const TTL_MS = 15_000;
const BEAT_MS = 5_000;

export class DishSession {
  readonly #key: string;
  readonly #token = randomUUID();
  readonly #lost = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  private constructor(dish: string) {
    this.#key = `dish:${dish}:pointing`;
  }

  static async open(dish: string): Promise<DishSession | null> {
    if (!client.isOpen) await client.connect();
    const session = new DishSession(dish);
    const ok = await client.set(session.#key, session.#token, { NX: true, PX: TTL_MS });
    if (ok !== 'OK') return null;
    session.#schedule();
    return session;
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#beat(), BEAT_MS);
  }

  async #beat(): Promise<void> {
    try {
      const watchdog = setTimeout(() => this.#lost.abort(new Error('no reply to heartbeat')), 6_000);
      // XX: no key means our time on the dish is over
      const ok = await client.set(this.#key, this.#token, { XX: true, PX: TTL_MS });
      clearTimeout(watchdog);
      if (ok === null) {
        this.#lost.abort(new Error('dish session expired'));
        return;
      }
    } catch (err) {
      this.#lost.abort(err);
      return;
    }
    if (!this.#lost.signal.aborted) this.#schedule();
  }

  async close(): Promise<void> {
    this.#lost.abort(new Error('session closed'));
    clearTimeout(this.#timer);
    await client.eval(RELEASE, { keys: [this.#key], arguments: [this.#token] });
  }
}

interface Target {
  ra: number;
  dec: number;
  seconds: number;
}

export async function observe(dish: string, targets: Target[]): Promise<number> {
  const session = await DishSession.open(dish);
  if (!session) return 0;
  let done = 0;
  try {
    for (const target of targets) {
      session.signal.throwIfAborted();
      const res = await fetch(`http://${dish}.array.local/track`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(target),
        signal: session.signal,
      });
      if (!res.ok) throw new Error(`${dish} refused the target: ${res.status}`);
      await res.arrayBuffer(); // comes when the integration is over
      done++;
    }
    return done;
  } finally {
    await session.close();
  }
}
