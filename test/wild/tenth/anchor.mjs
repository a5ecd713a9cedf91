import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';

// anchor: redlock with a `using()` that keeps the lock for you.
//
//   const anchor = make({ nodes });
//   await anchor.using('report', 10_000, async (signal) => { ... signal.throwIfAborted() ... });

const WEIGH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class Anchor {
  constructor(nodes, { patienceMs = 250, attempts = 10 } = {}) {
    this.nodes = nodes;
    this.majority = Math.floor(nodes.length / 2) + 1;
    this.patienceMs = patienceMs;
    this.attempts = attempts;
  }

  async #votes(limit, yes, command) {
    const ms = Math.min(limit, this.patienceMs);
    const replies = await Promise.all(
      this.nodes.map(
        (node) =>
          new Promise((resolve) => {
            const timer = setTimeout(resolve, ms, null);
            command(node)
              .catch(() => null)
              .then((reply) => {
                clearTimeout(timer);
                resolve(reply);
              });
          }),
      ),
    );
    return replies.filter((r) => r === yes).length;
  }

  async acquire(resource, ttlMs) {
    const key = `anchor:${resource}`;
    const worth = (ms) => ms - ms * 0.01 - 2;

    for (let n = 0; n < this.attempts; n++) {
      const token = randomUUID();
      const t0 = performance.now();
      const got = await this.#votes(ttlMs / 3, 'OK', (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      let deadline = t0 + worth(ttlMs);

      if (got >= this.majority && performance.now() < deadline) {
        let weighed = false;
        const remaining = () => (weighed ? 0 : Math.max(0, deadline - performance.now()));
        return {
          remaining,
          isValid: () => remaining() > 0,
          extend: async (ms) => {
            if (remaining() === 0) return false;
            const asked = performance.now();
            // XX: only if the lock is still there
            const kept = await this.#votes(ms / 3, 'OK', (node) => node.set(key, token, 'PX', ms, 'XX'));
            // (a shorter ttl counts too, even on the nodes that didn't answer)
            const next = asked + worth(ms);
            if (kept < this.majority) {
              deadline = Math.min(deadline, next);
              return false;
            }
            deadline = next;
            return remaining() > 0;
          },
          release: async () => {
            if (weighed) return;
            weighed = true;
            await this.#votes(1000, 1, (node) => node.eval(WEIGH, 1, key, token));
          },
        };
      }

      await this.#votes(ttlMs / 3, 1, (node) => node.eval(WEIGH, 1, key, token));
      await wait(60 + Math.random() * 90);
    }
    return null;
  }

  async using(resource, ttlMs, fn) {
    const lock = await this.acquire(resource, ttlMs);
    if (!lock) throw new Error(`anchor: ${resource} is taken`);
    const lost = new AbortController();
    const done = new AbortController();
    const keeper = (async () => {
      while (lock.isValid()) {
        await wait(Math.min(ttlMs / 3, lock.remaining()), undefined, { signal: done.signal });
        await Promise.race([
          lock.extend(ttlMs),
          wait(lock.remaining(), undefined, { signal: done.signal }), // don't sit out our time waiting
        ]);
      }
      lost.abort(new Error(`anchor: lost ${resource}`));
    })().catch(() => {});
    try {
      const result = await fn(lost.signal, lock);
      if (!lock.isValid()) throw new Error(`anchor: lost ${resource} before the end`);
      return result;
    } finally {
      done.abort();
      await lock.release();
      await keeper;
    }
  }
}

export const make = ({ nodes }) => new Anchor(nodes);
