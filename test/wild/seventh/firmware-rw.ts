import type { Redis } from 'ioredis';
import { nanoid } from 'nanoid';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    fwShare(readers: string, writer: string, id: string, ttl: number): Promise<number>;
    fwExclusive(readers: string, writer: string, id: string, ttl: number): Promise<number>;
    fwLeave(readers: string, writer: string, id: string): Promise<number>;
    fwInstall(writer: string, image: string, id: string, version: string): Promise<number>;
  }
}

/** Many devices stream an image at once (shared); replacing the image wants it alone (exclusive). */
export function installCommands(redis: Redis) {
  const NOW = `local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)`;
  redis.defineCommand('fwShare', {
    numberOfKeys: 2,
    lua: `${NOW}
      if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
      redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
      return 1`,
  });
  redis.defineCommand('fwExclusive', {
    numberOfKeys: 2,
    lua: `${NOW}
      redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
      if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
      if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
      return 0`,
  });
  redis.defineCommand('fwLeave', {
    numberOfKeys: 2,
    lua: `
      redis.call('ZREM', KEYS[1], ARGV[1])
      if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
      return 1`,
  });
  redis.defineCommand('fwInstall', {
    numberOfKeys: 2,
    lua: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      redis.call('SET', KEYS[2], ARGV[2])
      return 1`,
  });
}

export class FirmwareImage {
  private r: string;
  private w: string;
  constructor(private redis: Redis, private model: string, private ttl = 60_000) {
    this.r = `fw:{${model}}:readers`;
    this.w = `fw:{${model}}:writer`;
  }

  /** `chunk` must be asked before each block is sent; it throws once the share may be over. */
  async stream<T>(send: (chunk: (n: number) => Promise<Buffer>) => Promise<T>, read: (n: number) => Promise<Buffer>): Promise<T> {
    const id = nanoid();
    const began = performance.now();
    if ((await this.redis.fwShare(this.r, this.w, id, this.ttl)) !== 1) throw new Error(`${this.model}: image is being replaced`);
    try {
      const guard = () => {
        if (performance.now() - began > this.ttl * 0.9) throw new Error('share ran out, restart the download');
      };
      return await send(async (n) => {
        guard();
        const block = await read(n);
        guard();
        return block;
      });
    } finally {
      await this.redis.fwLeave(this.r, this.w, id).catch(() => {});
    }
  }

  async replace(build: () => Promise<string>): Promise<void> {
    const id = nanoid();
    for (let i = 0; (await this.redis.fwExclusive(this.r, this.w, id, this.ttl)) !== 1; i++) {
      if (i === 40) throw new Error(`${this.model}: still in use`);
      await new Promise((ok) => setTimeout(ok, 500 + Math.random() * 500));
    }
    try {
      const version = await build();
      const ok = await this.redis.fwInstall(this.w, `fw:{${this.model}}:current`, id, version);
      if (ok !== 1) throw new Error('took too long, old image stays');
    } finally {
      await this.redis.fwLeave(this.r, this.w, id).catch(() => {});
    }
  }
}
