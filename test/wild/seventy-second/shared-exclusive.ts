import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const ACQUIRE_READ = `
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('incr', KEYS[2])
redis.call('pexpire', KEYS[2], ARGV[1])
return 1
`;

const ACQUIRE_WRITE = `
local readers = tonumber(redis.call('get', KEYS[2]) or '0')
if readers > 0 then
  return 0
end
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0
`;

const RELEASE_WRITE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export type Release = () => Promise<void>;

export class SharedExclusiveLock {
  private readonly writerKey: string;
  private readonly readersKey: string;

  constructor(
    private readonly redis: Redis,
    name: string,
    private readonly ttl: number = 30_000,
  ) {
    this.writerKey = `{${name}}:writer`;
    this.readersKey = `{${name}}:readers`;
  }

  /** Shared access. Resolves to null while a writer is at work. */
  async tryRead(): Promise<Release | null> {
    const ok = await this.redis.eval(ACQUIRE_READ, 2, this.writerKey, this.readersKey, this.ttl);
    if (ok !== 1) return null;

    let released = false;
    return async () => {
      if (released) return;
      released = true;
      await this.redis.decr(this.readersKey);
    };
  }

  /** Exclusive access. Resolves to null while there are readers or another writer. */
  async tryWrite(): Promise<Release | null> {
    const token = randomUUID();
    const ok = await this.redis.eval(ACQUIRE_WRITE, 2, this.writerKey, this.readersKey, token, this.ttl);
    if (ok !== 1) return null;

    return async () => {
      await this.redis.eval(RELEASE_WRITE, 1, this.writerKey, token);
    };
  }

  read<T>(fn: () => Promise<T>, timeout = 10_000): Promise<T> {
    return this.hold(() => this.tryRead(), fn, timeout);
  }

  write<T>(fn: () => Promise<T>, timeout = 10_000): Promise<T> {
    return this.hold(() => this.tryWrite(), fn, timeout);
  }

  private async hold<T>(attempt: () => Promise<Release | null>, fn: () => Promise<T>, timeout: number): Promise<T> {
    const end = Date.now() + timeout;
    let release = await attempt();
    while (!release) {
      if (Date.now() > end) throw new Error('lock timeout');
      await new Promise((r) => setTimeout(r, 25 + Math.random() * 50));
      release = await attempt();
    }
    try {
      return await fn();
    } finally {
      await release();
    }
  }
}
