import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** One for all requests: the token of the latest acquisition is that of each release. */
export class AccountGate {
  private readonly redis: Redis;
  private owner = '';

  constructor(redis: Redis) {
    this.redis = redis;
  }

  async enter(account: string): Promise<boolean> {
    const owner = randomUUID();
    const reply = await this.redis.set(`account:${account}`, owner, 'PX', 6_500, 'NX');
    if (reply === 'OK') this.owner = owner;
    return reply === 'OK';
  }

  async leave(account: string): Promise<void> {
    await this.redis.eval(RELEASE, 1, `account:${account}`, this.owner);
  }
}
