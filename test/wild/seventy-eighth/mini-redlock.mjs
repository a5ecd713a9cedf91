/**
 * mini-redlock: the Redlock algorithm in ~100 lines, because the package we used
 * stopped being maintained.
 *
 * Give it an odd number of *independent* masters. A node that lost its data has
 * to stay down for longer than your longest ttl before it joins again.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class LockError extends Error {
  constructor(message, causes = []) {
    super(message);
    this.name = 'LockError';
    this.causes = causes;
  }
}

export const connect = (urls) =>
  urls.map((url) => {
    const node = new Redis(url, {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      commandTimeout: 200,
      maxRetriesPerRequest: 0,
    });
    node.on('error', () => {}); // a node may be down
    return node;
  });

export class MiniRedlock {
  constructor(nodes, { retries = 15, delay = 150, drift = 0.01 } = {}) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.retries = retries;
    this.delay = delay;
    this.drift = drift;
  }

  /** asks all nodes and returns until when the lock is good, or 0 */
  async #vote(ttl, ask) {
    const start = performance.now();
    const replies = await Promise.allSettled(this.nodes.map(async (node) => ask(node)));
    const yes = replies.filter((r) => r.status === 'fulfilled' && (r.value === 'OK' || r.value === 1));
    const until = start + ttl - Math.ceil(ttl * this.drift) - 2;
    const causes = replies.filter((r) => r.status === 'rejected').map((r) => r.reason);
    const ok = yes.length >= this.quorum && performance.now() < until;
    return { until: ok ? until : 0, causes };
  }

  async acquire(resource, ttl) {
    let causes = [];
    for (let i = 0; i <= this.retries; i++) {
      if (i > 0) await sleep(this.delay / 2 + Math.random() * this.delay);
      const lock = { resource, token: randomBytes(16).toString('hex'), ttl, until: 0 };
      const vote = await this.#vote(ttl, (n) => n.set(resource, lock.token, 'PX', ttl, 'NX'));
      if (vote.until) {
        lock.until = vote.until;
        return lock;
      }
      causes = vote.causes;
      await this.release(lock);
    }
    throw new LockError(`could not lock ${resource}`, causes);
  }

  async extend(lock) {
    if (performance.now() >= lock.until) throw new LockError(`${lock.resource} ran out`);
    const vote = await this.#vote(lock.ttl, (n) => n.eval(EXTEND, 1, lock.resource, lock.token, lock.ttl));
    if (!vote.until) throw new LockError(`could not extend ${lock.resource}`, vote.causes);
    lock.until = vote.until;
    return lock;
  }

  /** on every node, also where we think we did not get it */
  async release(lock) {
    lock.until = 0;
    await Promise.allSettled(
      this.nodes.map(async (n) => n.eval(RELEASE, 1, lock.resource, lock.token)),
    );
  }

  /**
   * Runs fn under the lock and keeps extending it. Look at the signal: it goes
   * off when the majority could not be kept in time.
   */
  async run(resource, ttl, fn) {
    const lock = await this.acquire(resource, ttl);
    const ac = new AbortController();
    const done = new AbortController();

    const guard = async () => {
      while (!done.signal.aborted) {
        const left = lock.until - performance.now();
        if (left <= 0) return ac.abort(new LockError(`lost ${resource}`));
        await sleep(Math.min(left, ttl / 10), null, { signal: done.signal }).catch(() => {});
      }
    };
    const renew = async () => {
      while (!done.signal.aborted && !ac.signal.aborted) {
        await sleep(ttl / 3, null, { signal: done.signal }).catch(() => {});
        if (done.signal.aborted) return;
        // a failed round is not the end, guard() keeps watch over the time
        await this.extend(lock).catch(() => {});
      }
    };
    guard();
    const renewing = renew();

    try {
      return await fn(ac.signal);
    } finally {
      done.abort();
      await renewing;
      await this.release(lock);
    }
  }
}
