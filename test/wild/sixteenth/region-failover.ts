import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Switches the primary region. Operators and the watchdog may both try, from
 * different regions; the lock lives on independent Redis nodes, one per region.
 */
const TTL_MS = 20_000;
const NODE_TIMEOUT_MS = 500;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const MARGIN_MS = 4_000;
const KEY = 'lock:region-failover';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface TrafficRouter {
  primary(opts: { signal: AbortSignal }): Promise<string>;
  drain(region: string, opts: { signal: AbortSignal }): Promise<void>;
  /** Rejects, with nothing changed, when the signal aborts. */
  promote(region: string, opts: { signal: AbortSignal }): Promise<void>;
}

export class FailoverInProgressError extends Error {}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

async function acquire(nodes: Redis[], token: string): Promise<number> {
  const startedAt = Date.now();
  const replies = await Promise.allSettled(
    nodes.map((node) => within(node.set(KEY, token, 'PX', TTL_MS, 'NX'), NODE_TIMEOUT_MS)),
  );

  // In a failover a region's node may well be down: the nodes that are up decide.
  const answers = replies.filter((r) => r.status === 'fulfilled');
  const votes = answers.filter((r) => r.value === 'OK').length;
  const quorum = Math.floor(answers.length / 2) + 1;

  const validUntil = startedAt + TTL_MS - DRIFT_MS - MARGIN_MS;
  if (votes < quorum || Date.now() >= validUntil) {
    throw new FailoverInProgressError(`got ${votes} votes, ${quorum} needed`);
  }
  return validUntil;
}

async function releaseAll(nodes: Redis[], token: string): Promise<void> {
  const replies = await Promise.allSettled(
    nodes.map((node) => within(node.eval(RELEASE, 1, KEY, token), NODE_TIMEOUT_MS)),
  );
  const failed = replies.filter((r) => r.status === 'rejected').length;
  if (failed > 0) console.warn(`${KEY}: ${failed} node(s) left to their TTL`);
}

export async function failOver(nodes: Redis[], router: TrafficRouter, target: string): Promise<void> {
  if (nodes.length < 3) throw new RangeError('at least three Redis nodes are needed');

  const token = randomUUID();
  try {
    const validUntil = await acquire(nodes, token);
    const signal = AbortSignal.timeout(validUntil - Date.now());

    const current = await router.primary({ signal });
    if (current === target) return;
    await router.drain(current, { signal });
    signal.throwIfAborted();
    await router.promote(target, { signal });
  } finally {
    await releaseAll(nodes, token);
  }
}
