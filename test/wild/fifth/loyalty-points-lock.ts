import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

// Points are recomputed on a lambda after each purchase. Upstash because of the lambdas.
const redis = Redis.fromEnv();

const LEASE_SECONDS = 20;
const SPARE_MS = 3_000;

export type PointsLease = {
  readonly memberId: string;
  readonly token: string;
  msLeft(): number;
};

function keyFor(memberId: string) {
  return `points:lock:${memberId}`;
}

export async function acquirePoints(memberId: string): Promise<PointsLease | null> {
  const token = `tok_${randomUUID()}`;
  const asked = performance.now();
  const reply = await redis.set(keyFor(memberId), token, { nx: true, ex: LEASE_SECONDS });
  if (reply !== 'OK') return null;

  const endsAt = asked + LEASE_SECONDS * 1000 - SPARE_MS;
  return { memberId, token, msLeft: () => endsAt - performance.now() };
}

export async function releasePoints(lease: PointsLease): Promise<void> {
  try {
    // one round trip, atomic
    const was = await redis.getdel<string>(keyFor(lease.memberId));
    if (was !== lease.token) {
      console.warn(`points lease of ${lease.memberId} had changed hands`, { was, mine: lease.token });
    }
  } catch (err) {
    console.warn(`points lease of ${lease.memberId} not released`, err);
  }
}

interface PointsStore {
  purchases(memberId: string): Promise<{ cents: number; campaign?: string }[]>;
  /** the statement is cancelled after timeoutMs */
  save(memberId: string, points: number, opts: { timeoutMs: number }): Promise<void>;
}

const campaignFactor: Record<string, number> = { double: 2, summer: 1.5 };

export function pointsFor(purchases: { cents: number; campaign?: string }[]): number {
  return purchases.reduce(
    (sum, p) => sum + Math.floor((p.cents / 100) * (campaignFactor[p.campaign ?? ''] ?? 1)),
    0,
  );
}

export async function recomputePoints(store: PointsStore, memberId: string): Promise<'done' | 'busy' | 'late'> {
  const lease = await acquirePoints(memberId);
  if (!lease) return 'busy';
  try {
    const points = pointsFor(await store.purchases(memberId)); // can take a while for old members
    if (lease.msLeft() < 2_000) return 'late';
    await store.save(memberId, points, { timeoutMs: 2_000 });
    return 'done';
  } finally {
    await releasePoints(lease);
  }
}

export const handler = (store: PointsStore) => async (event: { Records: { body: string }[] }) => {
  const retry: string[] = [];
  for (const record of event.Records) {
    const { memberId } = JSON.parse(record.body) as { memberId: string };
    if ((await recomputePoints(store, memberId)) !== 'done') retry.push(memberId);
  }
  return { retry };
};
