import { Redis } from 'ioredis';

const LOCKED = 'locked';

const UNLOCK_LUA = `
  local value = redis.call('GET', KEYS[1])
  if value == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return true
  end
  return false
`;

/**
 * Only one pod warms the cache.
 */
export class CacheWarmerLock {
  private validUntil = 0;

  constructor(
    private readonly redis: Redis,
    private readonly name = 'cache-warmer',
    private readonly ttl = 8000,
  ) {}

  async acquire(): Promise<boolean> {
    const now = performance.now();
    const result = await this.redis.set(this.name, LOCKED, 'PX', this.ttl, 'NX');
    if (result !== 'OK') return false;
    this.validUntil = now + this.ttl * 0.98;
    return true;
  }

  get isHeld(): boolean {
    return performance.now() < this.validUntil;
  }

  async release(): Promise<void> {
    this.validUntil = 0;
    await this.redis.eval(UNLOCK_LUA, 1, this.name, LOCKED);
  }
}
