import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import Redis from 'ioredis';

const KEY = 'search:indexer:leader';
const TTL_MS = 15_000;
const TICK_MS = 5_000;

// A command is answered within two seconds or it has failed.
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 2_000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
});
redis.on('error', (err) => console.warn('redis: %s', err.message));

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class IndexLeader extends EventEmitter {
  readonly id = `${hostname()}:${randomUUID()}`;
  #leading = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  get leading(): boolean {
    return this.#leading;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#tick(), TICK_MS);
    void this.#tick();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#become(false);
    await redis.eval(RESIGN, 1, KEY, this.id).catch((err) => console.warn('resign: %s', err.message));
  }

  async #tick(): Promise<void> {
    try {
      const reply = this.#leading
        ? await redis.set(KEY, this.id, 'PX', TTL_MS, 'XX')
        : await redis.set(KEY, this.id, 'PX', TTL_MS, 'NX');
      this.#become(reply === 'OK');
    } catch (err) {
      console.warn('leader tick: %s', (err as Error).message);
      this.#become(false);
    }
  }

  #become(leading: boolean): void {
    if (this.#stopped) leading = false;
    if (leading === this.#leading) return;
    this.#leading = leading;
    console.info('%s %s', this.id, leading ? 'leads' : 'follows');
    this.emit(leading ? 'elected' : 'deposed');
  }
}

const leader = new IndexLeader();

// The outbox is moved to the index by one process only, in order.
let draining = false;
leader.on('elected', async () => {
  if (draining) return;
  draining = true;
  while (leader.leading) {
    try {
      const res = await fetch(`${process.env.INDEXER_URL}/outbox/drain?max=500`, {
        method: 'POST',
        signal: AbortSignal.timeout(4_000),
      });
      const { moved } = (await res.json()) as { moved: number };
      if (moved === 0) await new Promise((r) => setTimeout(r, 1_000));
    } catch (err) {
      console.warn('drain: %s', (err as Error).message);
      await new Promise((r) => setTimeout(r, 1_000));
    }
  }
  draining = false;
});

redis.once('ready', () => leader.start());
process.once('SIGTERM', () => {
  void leader.stop().finally(() => redis.disconnect());
});
