import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { and, eq, lte } from 'drizzle-orm';
import { db } from '@/db';
import { digestSubscriptions } from '@/db/schema';
import { buildDigest } from '@/lib/digest';
import { logger } from '@/lib/logger';
import { sendPush } from '@/lib/push';

export const runtime = 'nodejs';
export const dynamic = 'force-dynamic';
export const maxDuration = 60;

const LOCK_KEY = 'lock:digest-push';
const LOCK_TTL_SECONDS = 120;
const BATCH_SIZE = 200;
const DAY_MS = 24 * 60 * 60 * 1000;

const redis = Redis.fromEnv();

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

async function sendDueDigests(): Promise<number> {
  const stopAt = Date.now() + 45_000;
  const due = await db
    .select()
    .from(digestSubscriptions)
    .where(and(eq(digestSubscriptions.enabled, true), lte(digestSubscriptions.nextDigestAt, new Date())))
    .limit(BATCH_SIZE);

  let sent = 0;
  for (const subscription of due) {
    if (Date.now() >= stopAt) break;
    try {
      const digest = await buildDigest(subscription.userId);
      await sendPush(subscription.deviceToken, digest, { timeoutMs: 5_000 });
      await db
        .update(digestSubscriptions)
        .set({ nextDigestAt: new Date(subscription.nextDigestAt.getTime() + DAY_MS) })
        .where(eq(digestSubscriptions.id, subscription.id));
      sent += 1;
    } catch (err) {
      logger.error({ err, subscriptionId: subscription.id }, 'digest failed');
    }
  }
  return sent;
}

export async function GET(req: Request): Promise<Response> {
  if (req.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return Response.json({ error: 'unauthorized' }, { status: 401 });
  }

  const token = randomUUID();
  try {
    const reply = await redis.set(LOCK_KEY, token, { nx: true, px: LOCK_TTL_SECONDS });
    if (reply !== 'OK') return Response.json({ skipped: true });
  } catch (err) {
    logger.error({ err }, 'digest lock unavailable');
    return Response.json({ error: 'unavailable' }, { status: 503 });
  }

  try {
    const sent = await sendDueDigests();
    return Response.json({ sent });
  } catch (err) {
    logger.error({ err }, 'digest run failed');
    return Response.json({ error: 'failed' }, { status: 500 });
  } finally {
    try {
      await redis.eval(RELEASE, [LOCK_KEY], [token]);
    } catch (err) {
      logger.warn({ err }, 'digest lock release failed');
    }
  }
}
