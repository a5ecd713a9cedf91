import { randomBytes } from 'node:crypto';
import type Redis from 'ioredis';

/**
 * Work permits on one Redis. Every permit has a serial number that only grows;
 * pass it along to the store and refuse writes with a lower one than seen.
 * The serials of all resources come from one counter key, which is kept.
 */
const ISSUE = `
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  return redis.call('INCR', KEYS[2])
end
return -1`;

const REVOKE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0`;

const PROLONG = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1`;

const COUNTER = 'permit:serial';

function limit<T>(p: Promise<T>, ms: number, what: string): Promise<T> {
  let t: NodeJS.Timeout;
  const stop = new Promise<never>((_, reject) => {
    t = setTimeout(() => reject(new Error(`${what}: no answer from redis in ${ms} ms`)), ms);
  });
  return Promise.race([p, stop]).finally(() => clearTimeout(t));
}

export interface Permit {
  readonly fence: number;
  remaining(): number;
  isValid(): boolean;
  extend(ttlMs: number): Promise<boolean>;
  release(): Promise<boolean>;
}

export class PermitOffice {
  private readonly redis: Redis;
  private readonly answerMs: number;

  constructor(redis: Redis, answerMs = 1000) {
    this.redis = redis;
    this.answerMs = answerMs;
  }

  async acquire(resource: string, ttlMs: number): Promise<Permit | null> {
    const key = `permit:for:${resource}`;
    const token = randomBytes(18).toString('base64url');
    const worth = (ms: number) => ms - ms / 100 - 2;

    const asked = performance.now();
    let fence: number;
    try {
      fence = Number(await limit(this.redis.eval(ISSUE, 2, key, COUNTER, token, ttlMs), this.answerMs, 'issue'));
    } catch (err) {
      // it may have been issued all the same; take it back behind our own request
      this.redis.eval(REVOKE, 1, key, token).catch(() => {});
      throw err;
    }
    if (fence < 0) return null;

    let until = asked + worth(ttlMs);
    let closed = false;
    const remaining = () => (closed ? 0 : Math.max(0, until - performance.now()));
    if (remaining() === 0) {
      this.redis.eval(REVOKE, 1, key, token).catch(() => {});
      return null;
    }

    return {
      fence,
      remaining,
      isValid: () => remaining() > 0,
      extend: async (ms) => {
        if (remaining() === 0) return false;
        const at = performance.now();
        const ok = await limit(this.redis.eval(PROLONG, 1, key, token, ms), this.answerMs, 'extend');
        if (ok !== 1) {
          closed = true; // somebody flushed it
          return false;
        }
        until = Math.max(until, at + worth(ms));
        return remaining() > 0;
      },
      // false: it had run out before
      release: async () => {
        if (closed) return false;
        closed = true;
        return (await limit(this.redis.eval(REVOKE, 1, key, token), this.answerMs, 'release')) === 1;
      },
    };
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new PermitOffice(nodes[0]);
export default PermitOffice;
