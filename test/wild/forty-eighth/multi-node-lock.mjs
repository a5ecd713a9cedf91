// Distributed lock over several independent Redis servers, node-redis v4.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const within = (promise, ms) => {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("node timeout")), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
};

export class MultiNodeLock {
  #clients;
  #nodeTimeout;
  #retries;

  constructor(urls, { nodeTimeout = 100, retries = 8 } = {}) {
    this.#nodeTimeout = nodeTimeout;
    this.#retries = retries;
    this.#clients = urls.map((url) => {
      const client = createClient({ url, disableOfflineQueue: true, socket: { connectTimeout: 1000 } });
      client.on("error", (err) => console.warn(`${url}: ${err.message}`));
      client.connect().catch(() => {});
      return client;
    });
  }

  async #lockOnce(key, token, ttl) {
    const online = this.#clients.filter((c) => c.isReady);
    if (online.length === 0) throw new Error("no lock server reachable");
    const quorum = Math.floor(online.length / 2) + 1;

    const start = performance.now();
    const replies = await Promise.allSettled(
      online.map((c) => within(c.set(key, token, { NX: true, PX: ttl }), this.#nodeTimeout)),
    );
    const granted = replies.filter((r) => r.status === "fulfilled" && r.value === "OK").length;
    const drift = Math.ceil(ttl * 0.01) + 2;
    const validity = Math.floor(ttl - (performance.now() - start) - drift);

    return granted >= quorum && validity > 0 ? validity : 0;
  }

  async #unlock(key, token) {
    await Promise.allSettled(
      this.#clients.map((c) => within(c.eval(UNLOCK, { keys: [key], arguments: [token] }), this.#nodeTimeout)),
    );
  }

  /**
   * Runs fn(signal) under the lock. The signal fires when the lock's validity ends.
   */
  async run(name, ttl, fn) {
    const key = `mlock:${name}`;
    for (let attempt = 0; attempt <= this.#retries; attempt++) {
      const token = randomBytes(16).toString("hex");
      let validity = 0;
      try {
        validity = await this.#lockOnce(key, token, ttl);
        if (validity > 0) return await fn(AbortSignal.timeout(validity));
      } finally {
        await this.#unlock(key, token);
      }
      await sleep(50 + Math.random() * 150 * (attempt + 1));
    }
    throw new Error(`could not lock ${name}`);
  }
}

// const locks = new MultiNodeLock(["redis://l1", "redis://l2", "redis://l3", "redis://l4", "redis://l5"]);
// await locks.run(`payout:${merchantId}`, 20_000, (signal) => sendPayout(merchantId, { signal }));
