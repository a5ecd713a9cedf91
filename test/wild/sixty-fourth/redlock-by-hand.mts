import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/*
 * The Redlock algorithm without a library, as described on redis.io:
 * the same random value on N independent masters, a quorum of them, and a
 * validity time from which the time spent and the clock drift are taken off.
 */

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;
const PROLONG = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`;

const NODE_TIMEOUT = 80;

export function connect(urls: string[]): Redis[] {
  return urls.map((url) => {
    const node = new Redis(url, {
      commandTimeout: NODE_TIMEOUT,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    });
    node.on('error', (err) => console.warn('[redlock]', url, err.message));
    return node;
  });
}

export class Lease {
  readonly #lost = new AbortController();
  #timer?: NodeJS.Timeout;
  #validUntil = 0;

  constructor(
    private readonly mutex: QuorumMutex,
    readonly resource: string,
    readonly value: string,
    validUntil: number,
  ) {
    this.#arm(validUntil);
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  get msLeft(): number {
    return this.#validUntil - performance.now();
  }

  /** Throws unless the lock is certainly still ours for `ms` more milliseconds. */
  assertValid(ms = 0): void {
    this.#lost.signal.throwIfAborted();
    if (this.msLeft <= ms) throw new Error(`lock ${this.resource}: not enough validity left`);
  }

  async extend(ttl: number): Promise<void> {
    this.assertValid();
    const until = await this.mutex.tryProlong(this.resource, this.value, ttl);
    if (until === null) {
      this.#lost.abort(new Error(`lock ${this.resource} could not be extended`));
    } else {
      this.#arm(until);
    }
    this.assertValid();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#validUntil = 0;
  }

  #arm(until: number): void {
    this.#validUntil = until;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => this.#lost.abort(new Error(`lock ${this.resource} ran out`)),
      Math.max(0, until - performance.now()),
    );
  }
}

export class QuorumMutex {
  readonly #quorum: number;

  constructor(private readonly nodes: Redis[], private readonly retries = 10) {
    this.#quorum = Math.floor(nodes.length / 2) + 1;
  }

  async #vote(ask: (node: Redis) => Promise<boolean>, ttl: number): Promise<number | null> {
    const start = performance.now();
    const votes = await Promise.all(this.nodes.map((node) => ask(node).catch(() => false)));
    const drift = Math.ceil(ttl * 0.01) + 2;
    const validUntil = start + ttl - drift;
    const yes = votes.filter(Boolean).length;
    return yes >= this.#quorum && validUntil > performance.now() ? validUntil : null;
  }

  tryProlong(resource: string, value: string, ttl: number): Promise<number | null> {
    return this.#vote(async (n) => (await n.eval(PROLONG, 1, resource, value, ttl)) === 1, ttl);
  }

  async #unlock(resource: string, value: string): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(UNLOCK, 1, resource, value)));
  }

  async acquire(resource: string, ttl: number): Promise<Lease> {
    for (let attempt = 0; attempt <= this.retries; attempt++) {
      const value = randomBytes(20).toString('hex');
      const until = await this.#vote(
        async (node) => (await node.set(resource, value, 'PX', ttl, 'NX')) === 'OK',
        ttl,
      );
      if (until !== null) return new Lease(this, resource, value, until);

      // Give back whatever we got, on every node, also those which timed out.
      await this.#unlock(resource, value);
      await sleep(50 + Math.random() * 200);
    }
    throw new Error(`lock ${resource}: no quorum after ${this.retries + 1} attempts`);
  }

  async using<T>(resource: string, ttl: number, fn: (lease: Lease) => Promise<T>): Promise<T> {
    const lease = await this.acquire(resource, ttl);
    try {
      return await fn(lease);
    } finally {
      lease.close();
      await this.#unlock(resource, lease.value);
    }
  }
}

/*
 *  const mutex = new QuorumMutex(connect(process.env.LOCK_NODES!.split(',')));
 *  await mutex.using('lock:payout', 10_000, async (lease) => {
 *    for (const payout of payouts) {
 *      await lease.extend(10_000);
 *      await bank.send(payout, { signal: lease.signal, timeout: 5_000 });
 *    }
 *  });
 */
