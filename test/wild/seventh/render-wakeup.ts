import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const TTL = 10_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[2], 'free')
  return 1
end
return 0`;

export class SceneLock {
  private readonly wakers = new Map<string, Set<() => void>>();
  private readonly sub: Redis;

  constructor(private readonly redis: Redis) {
    this.sub = redis.duplicate();
    this.sub.on('message', (channel) => this.wakers.get(channel)?.forEach((wake) => wake()));
  }

  async acquire(scene: string, patienceMs = 60_000) {
    const key = `scene:${scene}:lock`;
    const channel = `scene:${scene}:events`;
    const token = randomUUID();
    const stopAt = performance.now() + patienceMs;
    await this.sub.subscribe(channel);

    while (performance.now() < stopAt) {
      let since = performance.now();
      if ((await this.redis.set(key, token, 'PX', TTL, 'NX')) === 'OK') return this.handle(key, channel, token, since);

      if (await this.released(channel, 2_000)) {
        // the holder has just left, the scene is ours
        since = performance.now();
        await this.redis.set(key, token, 'PX', TTL);
        return this.handle(key, channel, token, since);
      }
    }
    throw new Error(`scene ${scene}: gave up waiting`);
  }

  private released(channel: string, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const set = this.wakers.get(channel) ?? new Set();
      this.wakers.set(channel, set);
      const done = (woken: boolean) => {
        clearTimeout(timer);
        set.delete(wake);
        resolve(woken);
      };
      const wake = () => done(true);
      const timer = setTimeout(() => done(false), ms);
      set.add(wake);
    });
  }

  private handle(key: string, channel: string, token: string, since: number) {
    return {
      left: () => since + TTL - performance.now(),
      release: () => this.redis.eval(RELEASE, 1, key, token, channel),
    };
  }
}

export async function updateScene(lock: SceneLock, scene: string, io: { load(): Promise<object>; store(s: object, ms: number): Promise<void> }, change: (s: object) => object) {
  const h = await lock.acquire(scene);
  try {
    const next = change(await io.load());
    if (h.left() < 3_000) throw new Error('scene lock too old');
    await io.store(next, 2_000);
  } finally {
    await h.release();
  }
}
