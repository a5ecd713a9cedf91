import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * New tariffs are staged row by row and switched on in one step. Two planners
 * must not stage at once, and the lock has to outlive the loss of any one of
 * the independent Redis masters (we run five, three in the small regions).
 */

const TTL_MS = 60_000;
const NODE_TIMEOUT_MS = 250;
const ATTEMPTS = 4;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface TariffStore {
  stage(draftId: string, rows: unknown[], signal: AbortSignal): Promise<void>;
  activate(region: string, version: string, draftId: string, signal: AbortSignal): Promise<void>;
  discard(draftId: string): Promise<void>;
}

interface Grant {
  key: string;
  token: string;
  validMs: number;
}

export class TariffLockedError extends Error {}

function within<T>(ms: number, op: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  });
  return Promise.race([op, late]).finally(() => clearTimeout(timer));
}

async function unlock(nodes: Redis[], key: string, token: string): Promise<void> {
  // to every node, also to those that seemed to refuse: their answer may be late
  await Promise.allSettled(nodes.map((node) => within(NODE_TIMEOUT_MS, node.eval(RELEASE, 1, key, token))));
}

async function lock(nodes: Redis[], key: string): Promise<Grant> {
  const quorum = Math.floor(nodes.length / 2) + 1;

  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const token = randomUUID();
    const startedAt = performance.now();
    const answers = await Promise.allSettled(
      nodes.map((node) => within(NODE_TIMEOUT_MS, node.set(key, token, 'PX', TTL_MS, 'NX'))),
    );
    const granted = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
    const validMs = TTL_MS - (performance.now() - startedAt) - DRIFT_MS;
    if (granted >= quorum && validMs > 0) return { key, token, validMs };

    await unlock(nodes, key, token);
    if (attempt < ATTEMPTS) await sleep(100 + Math.random() * 300);
  }
  throw new TariffLockedError(`${key} is taken`);
}

export async function publishTariff(
  nodes: Redis[],
  store: TariffStore,
  region: string,
  version: string,
  batches: AsyncIterable<unknown[]>,
): Promise<void> {
  const grant = await lock(nodes, `tariff:${region}:publish`);
  const draftId = `${region}/${version}/${grant.token}`;
  // the store gives up its open statement when the signal fires; stop early
  // enough that activate() cannot be under way when the lock runs out
  const signal = AbortSignal.timeout(Math.max(1, Math.floor(grant.validMs - 10_000)));
  try {
    for await (const rows of batches) {
      signal.throwIfAborted();
      await store.stage(draftId, rows, signal);
    }
    signal.throwIfAborted();
    await store.activate(region, version, draftId, signal);
  } catch (err) {
    await store.discard(draftId).catch(() => {});
    throw err;
  } finally {
    await unlock(nodes, grant.key, grant.token);
  }
}
