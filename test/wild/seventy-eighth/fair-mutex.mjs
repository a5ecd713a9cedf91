/**
 * Fair distributed mutex without polling.
 *
 * The lock is a list holding a single item. Whoever pops it owns the lock and
 * pushes it back when done. Redis serves blocked clients in the order in which
 * they came, so we get FIFO for free and nobody burns CPU in a retry loop.
 *
 *   import Redis from 'ioredis';
 *   import { FairMutex } from './fair-mutex.mjs';
 *
 *   const printer = new FairMutex(new Redis(), 'label-printer');
 *   await printer.run(() => printLabel(order));
 */

// the list is filled exactly once, no matter how many processes start together
const INIT = `
if redis.call('setnx', KEYS[1], '1') == 1 then
  redis.call('lpush', KEYS[2], 'ticket')
  return 1
end
return 0
`;

export class MutexTimeoutError extends Error {
  constructor(name, seconds) {
    super(`mutex ${name}: no turn within ${seconds}s`);
    this.name = 'MutexTimeoutError';
  }
}

export class FairMutex {
  #redis;
  #name;
  #initKey;
  #listKey;
  #ready = null;

  constructor(redis, name, { timeoutSeconds = 30, log = () => {} } = {}) {
    this.#redis = redis;
    this.#name = name;
    this.#initKey = `mutex:{${name}}:init`;
    this.#listKey = `mutex:{${name}}:list`;
    this.timeoutSeconds = timeoutSeconds;
    this.log = log;
  }

  #init() {
    this.#ready ??= this.#redis.eval(INIT, 2, this.#initKey, this.#listKey).catch((err) => {
      this.#ready = null;
      throw err;
    });
    return this.#ready;
  }

  /** resolves to an unlock function */
  async lock() {
    await this.#init();

    // BLPOP blocks the whole connection, so each waiter needs one of its own
    const blocking = this.#redis.duplicate({ maxRetriesPerRequest: null });
    blocking.on('error', (err) => this.log('connection error', err));
    const since = Date.now();

    let popped;
    try {
      popped = await blocking.blpop(this.#listKey, this.timeoutSeconds);
    } finally {
      blocking.disconnect();
    }
    if (!popped) throw new MutexTimeoutError(this.#name, this.timeoutSeconds);
    this.log(`got ${this.#name} after ${Date.now() - since}ms`);

    let unlocked = false;
    return async () => {
      if (unlocked) return; // a second push would let two in
      unlocked = true;
      await this.#redis.rpush(this.#listKey, 'ticket');
      this.log(`gave back ${this.#name}`);
    };
  }

  async run(fn) {
    const unlock = await this.lock();
    try {
      return await fn();
    } finally {
      await unlock();
    }
  }

  /** for the status page */
  async isLocked() {
    await this.#init();
    return (await this.#redis.llen(this.#listKey)) === 0;
  }
}
