import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const COMMAND_TIMEOUT_MS = 100;

export class LeaseDenied extends Error {
  constructor(name, granted, needed) {
    super(`lease ${name} denied: ${granted} of ${needed} needed nodes`);
    this.name = 'LeaseDenied';
  }
}

async function timed(promise, ms = COMMAND_TIMEOUT_MS) {
  let timer;
  try {
    return await Promise.race([
      promise,
      new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('redis node too slow')), ms);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

/** Connects to the lock nodes; a node which is down is retried in the background. */
export async function connectLockNodes(env = process.env) {
  const urls = (env.LOCK_REDIS_URLS ?? '').split(',').filter(Boolean);
  if (urls.length < 3) {
    throw new Error('LOCK_REDIS_URLS must name three nodes or more');
  }
  const nodes = urls.map((url) => {
    const node = createClient({ url, disableOfflineQueue: true });
    node.on('error', () => {});
    return node;
  });
  await Promise.allSettled(nodes.map((n) => timed(n.connect(), 2000)));
  return nodes;
}

export class QuorumLease {
  #nodes;
  #log;

  constructor(nodes, log = console) {
    this.#nodes = nodes;
    this.#log = log;
  }

  get quorum() {
    return Math.floor(this.#nodes.length / 2) + 1;
  }

  async acquire(name, ttlMs) {
    const key = `lease:${name}`;
    const token = randomUUID();
    const startedAt = performance.now();

    const results = await Promise.allSettled(
      this.#nodes.map((node) => timed(node.set(key, token, { NX: true, PX: ttlMs }))),
    );
    const granted = results.filter((r) => r.status === 'fulfilled').length;

    const drift = Math.round(ttlMs * 0.01) + 2;
    const validUntil = startedAt + ttlMs - drift;
    if (granted < this.quorum || performance.now() >= validUntil) {
      await this.#releaseAll(key, token);
      throw new LeaseDenied(name, granted, this.quorum);
    }
    this.#log.debug?.(`lease ${name} granted by ${granted} nodes`);
    return { key, token, validUntil };
  }

  async release(lease) {
    await this.#releaseAll(lease.key, lease.token);
  }

  async #releaseAll(key, token) {
    const results = await Promise.allSettled(
      this.#nodes.map((node) => timed(node.eval(RELEASE, { keys: [key], arguments: [token] }))),
    );
    const missed = results.filter((r) => r.status === 'rejected').length;
    if (missed) {
      this.#log.warn(`release of ${key} missed ${missed} nodes`);
    }
  }
}

/**
 * Certificates are ordered from the CA once for each domain. The CA has a strict weekly
 * limit, so two workers must not order at the same time.
 */
export function createCertificateRenewer({ leases, ca, vault, log = console }) {
  return async function renew(domain) {
    let lease;
    try {
      lease = await leases.acquire(`cert:${domain}`, 60_000);
    } catch (err) {
      if (err instanceof LeaseDenied) {
        log.info(err.message);
        return 'busy';
      }
      throw err;
    }

    try {
      const current = await vault.read(domain);
      if (current && current.notAfter - Date.now() > 30 * 86_400_000) {
        return 'fresh';
      }
      const left = Math.floor(lease.validUntil - performance.now()) - 5_000;
      if (left <= 0) {
        return 'busy';
      }
      const signal = AbortSignal.timeout(left);
      const cert = await ca.order(domain, { signal });
      await vault.write(domain, cert, { signal });
      log.info(`certificate of ${domain} renewed, valid to ${new Date(cert.notAfter).toISOString()}`);
      return 'renewed';
    } finally {
      await leases.release(lease);
    }
  };
}
