import { createClient } from 'redis';

/**
 * Fair mutex. A list holds one baton; who pops it owns the lock and pushes
 * it back when done. Redis serves clients that are blocked in BLPOP in the order
 * in which they came, so nobody starves, and there is no polling.
 */
export class FairLock {
  #pool;
  #list;
  #marker;

  constructor(pool, name) {
    this.#pool = pool;
    this.#list = `fairlock:{${name}}:baton`;
    this.#marker = `fairlock:{${name}}:created`;
  }

  /** Puts the baton in place, once for all instances. */
  async init() {
    await this.#pool.eval(
      `if redis.call('SETNX', KEYS[1], '1') == 1 then
         redis.call('RPUSH', KEYS[2], 'baton')
       end
       return 1`,
      { keys: [this.#marker, this.#list], arguments: [] },
    );
  }

  async acquire(timeoutSeconds = 30) {
    // BLPOP blocks its connection, so every waiter gets one of its own
    const connection = this.#pool.duplicate();
    connection.on('error', (err) => console.error('[fair-lock]', err.message));
    await connection.connect();
    try {
      const popped = await connection.blPop(this.#list, timeoutSeconds);
      if (popped === null) throw new Error(`no lock within ${timeoutSeconds} s`);
    } finally {
      await connection.quit().catch(() => {});
    }

    let held = true;
    return async () => {
      if (!held) return;
      held = false;
      await this.#pool.rPush(this.#list, 'baton');
    };
  }

  async run(fn, timeoutSeconds) {
    const release = await this.acquire(timeoutSeconds);
    try {
      return await fn();
    } finally {
      await release();
    }
  }
}

export async function startPrinterQueue(url, stream, print) {
  const client = createClient({ url });
  client.on('error', (err) => console.error('[redis]', err.message));
  await client.connect();

  const lock = new FairLock(client, 'label-printer');
  await lock.init();

  for await (const label of stream) {
    try {
      // one label at a time, from all warehouses, in order of arrival
      await lock.run(() => print(label), 60);
    } catch (err) {
      console.error(`label ${label.id} was not printed`, err);
    }
  }
}
