import type { Redis } from 'ioredis';

/** A lock as many write it: asks whether the key is there, and sets it if it is not. */
export class CheckThenSet {
  readonly #node: Redis;

  constructor(node: Redis) {
    this.#node = node;
  }

  async acquire(resource: string, ttlMs: number): Promise<{ release: () => Promise<unknown> } | null> {
    if ((await this.#node.get(resource)) !== null) return null;
    // Somebody else may have asked meanwhile, and found nothing either.
    await this.#node.set(resource, crypto.randomUUID(), 'PX', ttlMs);
    return { release: () => this.#node.del(resource) };
  }
}

const DELETE_OWN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** The same with one command that asks and sets, and a release that deletes what is its own and nothing else. */
export class SetIfAbsent {
  readonly #node: Redis;

  constructor(node: Redis) {
    this.#node = node;
  }

  async acquire(
    resource: string,
    ttlMs: number,
  ): Promise<{ expiration: number; release: () => Promise<unknown> } | null> {
    const token = crypto.randomUUID();
    const release = () => this.#node.eval(DELETE_OWN, 1, resource, token);
    // From before the command was sent: the node counts from a later moment on.
    const expiration = Date.now() + ttlMs;
    try {
      if ((await this.#node.set(resource, token, 'PX', ttlMs, 'NX')) === 'OK') return { expiration, release };
      return null;
    } catch (error) {
      // Perhaps only the answer was lost. Without this, the test finds the key that keeps everybody out.
      await release().catch(() => {});
      throw error;
    }
  }
}
