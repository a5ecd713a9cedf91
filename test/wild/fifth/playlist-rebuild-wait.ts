import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

type Client = ReturnType<typeof createClient>;

const TTL_MS = 20_000;
const RESERVE_MS = 2_000;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 'unlocked')
  return 1
end
return 0`;

/** Rebuilds of one playlist go one after the other; no polling, waiters get a message. */
export class PlaylistLocks {
  private constructor(
    private readonly client: Client,
    private readonly subscriber: Client,
  ) {}

  static async create(url = process.env.REDIS_URL ?? 'redis://localhost:6379'): Promise<PlaylistLocks> {
    const client = createClient({ url }) as Client;
    const subscriber = client.duplicate() as Client;
    for (const c of [client, subscriber]) c.on('error', (err: Error) => console.error('playlist redis', err.message));
    await Promise.all([client.connect(), subscriber.connect()]);
    return new PlaylistLocks(client, subscriber);
  }

  async with<T>(playlistId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `playlist:${playlistId}:lock`;
    const channel = `playlist:${playlistId}:unlocked`;
    const token = randomUUID();

    let asked = performance.now();
    while (!(await this.trySet(key, token))) {
      await this.nextMessage(channel);
      asked = performance.now();
    }

    try {
      const ms = asked + TTL_MS - RESERVE_MS - performance.now();
      return await fn(AbortSignal.timeout(Math.max(0, Math.floor(ms))));
    } finally {
      await this.client
        .eval(UNLOCK, { keys: [key, channel], arguments: [token] })
        .catch((err: Error) => console.warn(`${key}: unlock: ${err.message}`));
    }
  }

  private async trySet(key: string, token: string): Promise<boolean> {
    const reply = await this.client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: TTL_MS },
    });
    return reply === 'OK';
  }

  private nextMessage(channel: string): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const listener = () => {
        this.subscriber.unsubscribe(channel, listener).catch(() => undefined);
        resolve();
      };
      this.subscriber.subscribe(channel, listener).catch(reject);
    });
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.client.close(), this.subscriber.close()]);
  }
}

export interface PlaylistStore {
  tracks(id: string, signal: AbortSignal): Promise<string[]>;
  score(track: string, signal: AbortSignal): Promise<number>;
  save(id: string, order: string[], opts: { timeoutMs: number }): Promise<void>;
}

export function rebuild(locks: PlaylistLocks, store: PlaylistStore, id: string): Promise<string[]> {
  return locks.with(id, async (signal) => {
    const scored: [string, number][] = [];
    for (const track of await store.tracks(id, signal)) {
      signal.throwIfAborted();
      scored.push([track, await store.score(track, signal)]);
    }
    const order = scored.sort((a, b) => b[1] - a[1]).map(([track]) => track);
    signal.throwIfAborted();
    await store.save(id, order, { timeoutMs: 1_500 });
    return order;
  });
}
