import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const TAKE_BACK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const LEND_LONGER = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1`;

export interface Drawer {
  resource: string;
  isValid(): boolean;
  remaining(): number;
  extend(ttlMs: number): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * One cabinet per process. Keeps a list of what is out at the moment, for the
 * /debug/locks page and to give everything back at shutdown.
 */
export class Cabinet {
  private readonly redis: Redis;
  private readonly out = new Map<string, string>(); // resource -> token

  constructor(redis: Redis) {
    this.redis = redis;
  }

  get held(): string[] {
    return [...this.out.keys()];
  }

  async acquire(resource: string, ttlMs: number): Promise<Drawer | null> {
    const token = randomUUID();
    const asked = performance.now();
    let reply: string | null;
    try {
      reply = await this.reply(this.redis.set(this.key(resource), token, 'PX', ttlMs, 'NX'));
    } catch (err) {
      this.takeBack(resource, token).catch(() => {});
      throw err;
    }
    if (reply !== 'OK') return null;

    let until = asked + this.lasts(ttlMs);
    if (performance.now() >= until) {
      this.takeBack(resource, token).catch(() => {});
      return null;
    }
    this.out.set(resource, token);

    let returned = false;
    const remaining = () => (returned ? 0 : Math.max(0, until - performance.now()));
    return {
      resource,
      remaining,
      isValid: () => remaining() > 0,
      extend: async (ms) => {
        if (remaining() === 0) return false;
        const from = performance.now();
        const ok = await this.reply(this.redis.eval(LEND_LONGER, 1, this.key(resource), token, ms));
        if (ok !== 1) return false;
        until = Math.max(until, from + this.lasts(ms));
        return remaining() > 0;
      },
      release: async () => {
        if (returned) return;
        returned = true;
        await this.giveBack(resource);
      },
    };
  }

  async giveBackAll(): Promise<void> {
    await Promise.allSettled(this.held.map((resource) => this.giveBack(resource)));
  }

  private async giveBack(resource: string): Promise<void> {
    const token = this.out.get(resource);
    if (token === undefined) return;
    this.out.delete(resource);
    await this.takeBack(resource, token);
  }

  private takeBack(resource: string, token: string) {
    return this.reply(this.redis.eval(TAKE_BACK, 1, this.key(resource), token));
  }

  private key(resource: string) {
    return `cabinet:${resource}`;
  }

  private lasts(ttlMs: number) {
    return ttlMs - ttlMs * 0.01 - 2;
  }

  private reply<T>(promise: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(reject, 1500, new Error('cabinet: redis is not answering'));
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Cabinet(nodes[0]);
