import { randomUUID } from 'node:crypto';
import Redis from 'iovalkey';

const redis = new Redis(process.env.VALKEY_URL ?? process.env.REDIS_URL ?? 'redis://localhost:6379', {
  lazyConnect: true,
});

redis.defineCommand('permitTake', {
  numberOfKeys: 1,
  lua: `
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
      return 0
    end
    redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[3])
    end
    return 1`,
});

export class ExportPermits {
  constructor(name, { permits = 1, holdMs = 30_000, client = redis } = {}) {
    this.key = `permits:${name}`;
    this.permits = permits;
    this.holdMs = holdMs;
    this.client = client;
  }

  async tryTake() {
    const id = randomUUID();
    const askedAt = performance.now();
    const got = await this.client.permitTake(this.key, id, this.permits, this.holdMs);
    if (got !== 1) return null;
    const until = askedAt + this.holdMs - Math.max(20, this.holdMs * 0.02);
    return {
      id,
      get live() {
        return performance.now() < until;
      },
      give: () => this.client.zrem(this.key, id),
    };
  }

  async take(waitMs = 5_000) {
    const stopAt = performance.now() + waitMs;
    let delay = 50;
    while (performance.now() < stopAt) {
      const permit = await this.tryTake();
      if (permit) return permit;
      await new Promise((resolve) => setTimeout(resolve, delay * (0.5 + Math.random())));
      delay = Math.min(delay * 2, 800);
    }
    const err = new Error(`no export slot on ${this.key} within ${waitMs}ms`);
    err.code = 'NO_PERMIT';
    throw err;
  }
}

export async function exportPages(permits, pages, writePage) {
  const permit = await permits.take();
  let written = 0;
  try {
    for (const page of pages) {
      if (!permit.live) throw new Error(`export slot ran out after ${written} pages`);
      await writePage(page);
      written++;
    }
    return written;
  } finally {
    await permit.give();
  }
}

export const toCsvLine = (cells) => cells.map((c) => `"${String(c).replaceAll('"', '""')}"`).join(',');
