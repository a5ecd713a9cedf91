/**
 * Lease of a telescope over several independent Redis nodes.
 *
 * A lease counts when more than half of the nodes have granted it within the time
 * it is valid for. The observing program gets a signal which is aborted when that
 * time is over; a program that needs longer has to ask for a longer lease.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Node = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class TelescopeBusyError extends Error {
  override name = 'TelescopeBusyError';
}

export class LeaseExpiredError extends Error {
  override name = 'LeaseExpiredError';
}

class NodeTimeoutError extends Error {
  override name = 'NodeTimeoutError';
}

export interface LeaseOptions {
  ttlMs?: number;
  attempts?: number;
  /** How long one node may take to answer. */
  nodeTimeoutMs?: number;
}

/** Settles with the command, or rejects when the node is silent for too long. */
function withTimeout<T>(command: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NodeTimeoutError(`no answer in ${ms} ms`)), ms);
  });
  return Promise.race([command, silence]).finally(() => clearTimeout(timer));
}

export class TelescopeLeases {
  readonly #nodes: readonly Node[];
  readonly #quorum: number;

  /** @param nodes connected clients of independent primaries, not replicas of each other */
  constructor(nodes: readonly Node[]) {
    this.#nodes = nodes;
    this.#quorum = Math.floor(nodes.length / 2) + 1;
  }

  /**
   * Runs `observe` while holding the telescope.
   * @throws {TelescopeBusyError} if no attempt reached the quorum
   * @throws {LeaseExpiredError} if the program was still running at the end of the lease
   */
  async withTelescope<T>(
    name: string,
    observe: (signal: AbortSignal) => Promise<T>,
    { ttlMs = 60_000, attempts = 5, nodeTimeoutMs = 250 }: LeaseOptions = {},
  ): Promise<T> {
    const key = `telescope:${name}:lease`;

    for (let attempt = 1; attempt <= attempts; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      const votes = await this.#vote(key, token, ttlMs, nodeTimeoutMs);
      const drift = ttlMs * 0.01 + 2;
      const validUntil = startedAt + ttlMs - drift;

      if (votes >= this.#quorum && performance.now() < validUntil) {
        return this.#hold(key, token, validUntil, nodeTimeoutMs, observe);
      }
      await this.#release(key, token, nodeTimeoutMs);
      if (attempt < attempts) await sleep(200 + Math.random() * 400);
    }
    throw new TelescopeBusyError(`${name} could not be leased`);
  }

  async #hold<T>(
    key: string,
    token: string,
    validUntil: number,
    nodeTimeoutMs: number,
    observe: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const over = new AbortController();
    const expire = () => over.abort(new LeaseExpiredError(key));
    const timer = setTimeout(expire, validUntil - performance.now());
    try {
      const result = await observe(over.signal);
      if (performance.now() >= validUntil) expire();
      over.signal.throwIfAborted();
      return result;
    } finally {
      clearTimeout(timer);
      await this.#release(key, token, nodeTimeoutMs);
    }
  }

  async #vote(key: string, token: string, ttlMs: number, nodeTimeoutMs: number): Promise<number> {
    const answers = await Promise.allSettled(
      this.#nodes.map((node) =>
        withTimeout(node.set(key, token, { NX: true, PX: ttlMs }), nodeTimeoutMs),
      ),
    );
    return answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
  }

  /** Goes to all nodes: one that did not answer in time may have stored the key all the same. */
  async #release(key: string, token: string, nodeTimeoutMs: number): Promise<void> {
    await Promise.allSettled(
      this.#nodes.map((node) =>
        withTimeout(node.eval(RELEASE, { keys: [key], arguments: [token] }), nodeTimeoutMs),
      ),
    );
  }
}
