import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

// Three databases in three regions, each its own primary.
const databases = ['EU', 'US', 'AP'].map(
  (region) =>
    new Redis({
      url: process.env[`UPSTASH_${region}_URL`] ?? '',
      token: process.env[`UPSTASH_${region}_TOKEN`] ?? '',
      retry: false,
      signal: () => AbortSignal.timeout(1_500),
    }),
);

const QUORUM = Math.floor(databases.length / 2) + 1;
const TTL_MS = 45_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const MAX_ATTEMPTS = 10;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export class ProvisioningBusyError extends Error {}

async function releaseEverywhere(key: string, token: string): Promise<void> {
  // allSettled: a region which is down must not keep us from the others
  await Promise.allSettled(databases.map((db) => db.eval(RELEASE, [key], [token])));
}

async function vote(key: string, token: string): Promise<number> {
  const replies = await Promise.allSettled(
    databases.map((db) => db.set(key, token, { nx: true, px: TTL_MS })),
  );
  return replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
}

interface Grant {
  key: string;
  token: string;
  validMs: number;
}

async function acquire(tenant: string): Promise<Grant> {
  const key = `provision:${tenant}`;
  const token = randomUUID();

  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const startedAt = performance.now();
    const granted = await vote(key, token);
    const validMs = TTL_MS - DRIFT_MS - (performance.now() - startedAt);
    if (granted >= QUORUM && validMs > 0) {
      return { key, token, validMs };
    }
    // Give back the minority we got; no need to hold up the next round for it.
    void releaseEverywhere(key, token);
    await sleep(20 + Math.random() * 60);
  }
  throw new ProvisioningBusyError(tenant);
}

export interface Step {
  name: string;
  /** Must give up when the signal fires. */
  run(tenant: string, signal: AbortSignal): Promise<void>;
}

/** Runs the steps in order; a tenant is set up by one worker at a time. */
export async function provision(tenant: string, steps: Step[]): Promise<string[]> {
  const { key, token, validMs } = await acquire(tenant);
  const signal = AbortSignal.timeout(Math.max(0, Math.floor(validMs - 3_000)));
  const finished: string[] = [];
  try {
    for (const step of steps) {
      signal.throwIfAborted();
      await step.run(tenant, signal);
      finished.push(step.name);
    }
    return finished;
  } finally {
    await releaseEverywhere(key, token);
  }
}
