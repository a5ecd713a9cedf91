import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

/*
 * lock:<name>  hash
 *   owner      token of the process that builds the sitemap
 *   expires    when others may take it
 */
const ACQUIRE = `
local expires = tonumber(redis.call('HGET', KEYS[1], 'expires') or '0')
if expires > tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'expires', ARGV[3])
return 1`;

const RENEW = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'expires', ARGV[2])
return 1`;

const RELEASE = `
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class SitemapLock {
  constructor(redis = new Redis(process.env.REDIS_URL), { name = 'sitemap', ttl = 60_000 } = {}) {
    this.redis = redis;
    this.key = `lock:${name}`;
    this.ttl = ttl;
    this.token = null;
    this.expires = 0;
  }

  async acquire() {
    const token = randomUUID();
    const now = Date.now();
    const expires = now + this.ttl;
    const ok = await this.redis.eval(ACQUIRE, 1, this.key, token, now, expires);
    if (ok !== 1) return false;
    this.token = token;
    this.expires = expires;
    return true;
  }

  async renew() {
    if (!this.held()) return false;
    const expires = Date.now() + this.ttl;
    const ok = await this.redis.eval(RENEW, 1, this.key, this.token, expires);
    this.expires = ok === 1 ? expires : 0;
    return this.held();
  }

  held() {
    return this.token !== null && Date.now() < this.expires;
  }

  async release() {
    if (!this.token) return;
    const token = this.token;
    this.token = null;
    this.expires = 0;
    await this.redis.eval(RELEASE, 1, this.key, token);
  }
}

export async function buildSitemap(lock, sections, writeSection) {
  if (!(await lock.acquire())) return false;
  try {
    for (const section of sections) {
      if (!(await lock.renew())) return false;
      await writeSection(section);
    }
    return true;
  } finally {
    await lock.release();
  }
}
