import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

const scripts = {
  renew: `if redis.call('GET', KEYS[1]) == ARGV[1] then
            return redis.call('PEXPIRE', KEYS[1], ARGV[2])
          end
          return 0`,
  release: `if redis.call('GET', KEYS[1]) == ARGV[1] then
              return redis.call('DEL', KEYS[1])
            end
            return 0`,
};

interface Lockable {
  readonly redis: RedisClientType;
  readonly log: { warn(msg: string, meta?: unknown): void };
}

export class AlreadyRunningError extends Error {
  override name = 'AlreadyRunningError';
}

/** Runs the method for at most one caller per key across all nodes. */
export function exclusive<This extends Lockable, Args extends unknown[], R>(
  keyFor: (...args: Args) => string,
  { ttlMs = 30_000 }: { ttlMs?: number } = {},
) {
  return function (method: (this: This, ...args: Args) => Promise<R>, ctx: ClassMethodDecoratorContext<This>) {
    return async function (this: This, ...args: Args): Promise<R> {
      const key = `excl:${String(ctx.name)}:${keyFor(...args)}`;
      const token = randomUUID();

      const reply = await this.redis.set(key, token, { NX: true, PX: ttlMs });
      if (reply !== 'OK') throw new AlreadyRunningError(key);

      const keepAlive = setInterval(() => {
        this.redis
          .eval(scripts.renew, { keys: [key], arguments: [String(ttlMs), token] })
          .catch((err) => this.log.warn('keep-alive failed', { key, err }));
      }, ttlMs / 3);

      try {
        return await method.apply(this, args);
      } finally {
        clearInterval(keepAlive);
        await this.redis
          .eval(scripts.release, { keys: [key], arguments: [token] })
          .catch((err) => this.log.warn('release failed', { key, err }));
      }
    };
  };
}

export interface PortingGateway {
  /** Sends the order to the donor network and waits for its answer, usually one to three minutes. */
  requestRelease(msisdn: string, donor: string): Promise<{ reference: string }>;
}

export interface PortingStore {
  find(msisdn: string): Promise<{ state: 'requested' | 'released'; donor: string } | undefined>;
  saveReleased(msisdn: string, reference: string): Promise<void>;
  addPortingFee(msisdn: string, cents: number): Promise<void>;
}

export class PortingService implements Lockable {
  constructor(
    readonly redis: RedisClientType,
    readonly log: Lockable['log'],
    private readonly gateway: PortingGateway,
    private readonly store: PortingStore,
  ) {}

  @exclusive((msisdn: string) => msisdn)
  async port(msisdn: string): Promise<void> {
    const order = await this.store.find(msisdn);
    if (!order || order.state === 'released') return;

    const { reference } = await this.gateway.requestRelease(msisdn, order.donor);
    await this.store.addPortingFee(msisdn, 995);
    await this.store.saveReleased(msisdn, reference);
  }
}
