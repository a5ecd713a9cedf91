/**
 * Lease over several independent Redis primaries (no replicas, appendfsync always),
 * used to lodge customs manifests one at a time per consignment.
 */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class ManifestLocks {
  /** @param {string[]} urls  every node of the configuration, reachable or not */
  constructor(urls) {
    if (new Set(urls).size !== urls.length || urls.length < 3) throw new Error('need three or more distinct nodes');
    this.nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: 200,
        connectTimeout: 1_000,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
      });
      node.on('error', () => undefined);
      return node;
    });
    this.quorum = Math.floor(urls.length / 2) + 1;
  }

  /** @param {string} key @param {string} token */
  async #dropEverywhere(key, token) {
    await Promise.allSettled(this.nodes.map((node) => node.eval(DROP, 1, key, token)));
  }

  /**
   * @param {string} name
   * @param {number} ttlMs
   * @param {number} [attempts]
   * @returns {Promise<{ leftMs(): number, release(): Promise<void> }>}
   */
  async acquire(name, ttlMs, attempts = 5) {
    const key = `manifest:${name}`;
    for (let i = 0; i < attempts; i++) {
      const token = randomUUID();
      const asked = performance.now();
      const answers = await Promise.allSettled(
        this.nodes.map((node) => node.set(key, token, 'PX', ttlMs, 'NX')),
      );
      const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
      const until = asked + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
      if (votes >= this.quorum && performance.now() < until) {
        return {
          leftMs: () => until - performance.now(),
          release: () => this.#dropEverywhere(key, token),
        };
      }
      await this.#dropEverywhere(key, token);
      await sleep(150 + Math.random() * 300);
    }
    throw new Error(`manifest ${name} is being lodged elsewhere`);
  }
}

/**
 * @param {ManifestLocks} locks
 * @param {{ id: string, revision: number, xml: string }} manifest
 */
export async function lodge(locks, manifest) {
  const lease = await locks.acquire(manifest.id, 20_000);
  try {
    const budget = Math.min(12_000, lease.leftMs() - 3_000);
    if (budget < 2_000) throw new Error('lease too short to start');
    const res = await fetch(`${process.env.CUSTOMS_GATEWAY}/manifests/${manifest.id}`, {
      method: 'PUT',
      headers: {
        'content-type': 'application/xml',
        // the gateway answers a repeated pair with the first receipt, a lower revision with 409
        'idempotency-key': `${manifest.id}/${manifest.revision}`,
        'x-revision': String(manifest.revision),
      },
      body: manifest.xml,
      signal: AbortSignal.timeout(budget),
    });
    if (!res.ok) throw new Error(`gateway said ${res.status}`);
    return await res.json();
  } finally {
    await lease.release();
  }
}
