import type { Redis } from '@upstash/redis';

const RELEASE = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;

export interface SignupDeps {
  redis: Redis;
  log?: (event: string, data?: Record<string, unknown>) => void;
}

export class SignupInProgress extends Error {
  constructor() {
    super('a sign-up with this address is already running');
    this.name = 'SignupInProgress';
  }
}

export function normaliseEmail(address: string): string {
  const [local = '', domain = ''] = address.trim().toLowerCase().split('@');
  return `${local.split('+')[0]}@${domain}`;
}

export function createSignupLock({ redis, log = () => {} }: SignupDeps) {
  async function acquire(key: string, owner: string, px: number): Promise<boolean> {
    try {
      const reply = await redis.set(key, owner, { nx: true, px });
      return reply === 'OK';
    } catch (err) {
      log('signup.lock.error', { key, message: (err as Error).message });
      return true;
    }
  }

  async function release(key: string, owner: string): Promise<void> {
    try {
      await redis.eval(RELEASE, [key], [owner]);
    } catch (err) {
      log('signup.unlock.error', { key, message: (err as Error).message });
    }
  }

  return async function exclusiveSignup<T>(email: string, fn: (email: string) => Promise<T>): Promise<T> {
    const address = normaliseEmail(email);
    const key = `signup:${address}`;
    const owner = crypto.randomUUID();
    if (!(await acquire(key, owner, 15_000))) {
      log('signup.locked', { key });
      throw new SignupInProgress();
    }
    try {
      return await fn(address);
    } finally {
      await release(key, owner);
    }
  };
}
