import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 'free')
  return 1
end
return 0`;

const TTL_MS = 20_000;
const MARGIN_MS = 200;

export interface TileSource {
  cached(tile: string): Promise<Buffer | null>;
  build(tile: string, signal: AbortSignal): Promise<Buffer>;
}

export class MapTiles {
  private constructor(
    private readonly client: Client,
    private readonly sub: Client,
    private readonly source: TileSource,
  ) {}

  static async open(source: TileSource): Promise<MapTiles> {
    const client = createClient({ url: process.env.REDIS_URL });
    client.on("error", (err) => console.error("redis:", err));
    const sub = client.duplicate();
    sub.on("error", (err) => console.error("redis (sub):", err));
    await Promise.all([client.connect(), sub.connect()]);
    return new MapTiles(client, sub, source);
  }

  /** Builds a tile once; everyone else waits for the builder and takes the cached picture. */
  async tile(tile: string): Promise<Buffer> {
    const hit = await this.source.cached(tile);
    if (hit) return hit;
    return this.withLock(`tile:${tile}`, async (signal) => {
      return (await this.source.cached(tile)) ?? (await this.source.build(tile, signal));
    });
  }

  private async withLock<T>(key: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const channel = `${key}:free`;
    const token = randomUUID();
    let wake = () => {};
    const listener = () => wake();
    await this.sub.subscribe(channel, listener);
    let deadline = 0;
    try {
      for (;;) {
        // armed before the attempt, so a release right after it is not missed
        const freed = new Promise<void>((resolve) => (wake = resolve));
        const sentAt = performance.now();
        if ((await this.client.set(key, token, { NX: true, PX: TTL_MS })) === "OK") {
          deadline = sentAt + TTL_MS - MARGIN_MS;
          break;
        }
        await freed;
      }
    } catch (err) {
      await this.release(key, channel, token);
      throw err;
    } finally {
      await this.sub.unsubscribe(channel, listener).catch(() => {});
    }
    try {
      return await work(AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now()))));
    } finally {
      await this.release(key, channel, token);
    }
  }

  private async release(key: string, channel: string, token: string): Promise<void> {
    await this.client
      .eval(RELEASE, { keys: [key, channel], arguments: [token] })
      .catch((err) => console.warn(`release ${key}:`, err));
  }
}
