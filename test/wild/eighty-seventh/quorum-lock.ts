/**
 * A lock over several independent Redis nodes (no replication among them).
 *
 * Nodes are expected to run with `appendfsync always`, or to stay out of
 * service for one full ttl after a restart.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const DELETE_IF_MINE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const PROLONG_IF_MINE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;

export interface QuorumOptions {
  /** How long one node may take to answer, in ms. Keep it far below the ttl. */
  nodeTimeoutMs?: number;
  attempts?: number;
  retryDelayMs?: number;
}

export class QuorumError extends Error {
  override name = 'QuorumError';
}

/** Allowance for clock rates that differ among the nodes and this process. */
const drift = (ttlMs: number): number => Math.ceil(ttlMs * 0.01) + 2;

/** Resolves to the answer, or to `undefined` when the node failed or was too slow. */
async function ask<T>(call: () => Promise<T>, timeoutMs: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  try {
    return await Promise.race([call(), late]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

export class QuorumLock {
  private readonly quorum: number;
  private readonly nodeTimeoutMs: number;
  private readonly attempts: number;
  private readonly retryDelayMs: number;

  constructor(private readonly nodes: RedisClientType[], options: QuorumOptions = {}) {
    if (nodes.length < 3) throw new RangeError('a quorum needs at least three nodes');
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.nodeTimeoutMs = options.nodeTimeoutMs ?? 50;
    this.attempts = options.attempts ?? 5;
    this.retryDelayMs = options.retryDelayMs ?? 200;
  }

  /** Takes `resource` for `ttlMs`, or throws a QuorumError. */
  async acquire(resource: string, ttlMs: number): Promise<HeldLock> {
    for (let attempt = 1; attempt <= this.attempts; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      const votes = await this.count(
        (node) => node.set(resource, token, { NX: true, PX: ttlMs }),
        (reply) => reply === 'OK',
      );
      const validUntil = startedAt + ttlMs - drift(ttlMs);
      if (votes >= this.quorum && performance.now() < validUntil) {
        return new HeldLock(this, resource, token, validUntil);
      }
      await this.release(resource, token);
      if (attempt < this.attempts) await sleep(this.retryDelayMs * (0.5 + Math.random()));
    }
    throw new QuorumError(`no quorum for ${resource}`);
  }

  /** Prolongs on a majority and returns the new end of validity. */
  async prolong(resource: string, token: string, ttlMs: number): Promise<number> {
    const startedAt = performance.now();
    const votes = await this.count(
      (node) => node.eval(PROLONG_IF_MINE, { keys: [resource], arguments: [token, String(ttlMs)] }),
      (reply) => reply === 1,
    );
    const validUntil = startedAt + ttlMs - drift(ttlMs);
    if (votes < this.quorum || performance.now() >= validUntil) {
      throw new QuorumError(`could not prolong ${resource}`);
    }
    return validUntil;
  }

  /** Asks every node, also those whose answer to the request never came. */
  async release(resource: string, token: string): Promise<void> {
    await this.count((node) => node.eval(DELETE_IF_MINE, { keys: [resource], arguments: [token] }), () => true);
  }

  private async count(call: (n: RedisClientType) => Promise<unknown>, yes: (reply: unknown) => boolean) {
    const replies = await Promise.all(this.nodes.map((node) => ask(() => call(node), this.nodeTimeoutMs)));
    return replies.filter((reply) => reply !== undefined && yes(reply)).length;
  }
}

export class HeldLock {
  constructor(private readonly owner: QuorumLock, readonly resource: string, readonly token: string, private validUntil: number) {}

  /** Milliseconds that are left; check it before each step of the guarded work. */
  remainingMs = (): number => Math.max(0, this.validUntil - performance.now());

  async prolong(ttlMs: number): Promise<void> {
    if (this.remainingMs() === 0) throw new QuorumError(`${this.resource} has run out`);
    this.validUntil = await this.owner.prolong(this.resource, this.token, ttlMs);
  }

  release = (): Promise<void> => this.owner.release(this.resource, this.token);
}
