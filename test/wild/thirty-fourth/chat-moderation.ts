// app/api/moderation/strikes/route.ts
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LOCK_TTL_MS = 30_000;
const REQUEST_TIMEOUT_MS = 8_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

interface StrikeRecord {
  count: number;
  messageIds: string[];
  mutedUntil: number | null;
}

interface Report {
  channelId: string;
  userId: string;
  messageId: string;
  text: string;
}

class TimeoutError extends Error {}

function withTimeout<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`gave up after ${ms} ms`)), ms);
  });
  return Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

async function isAbusive(text: string): Promise<boolean> {
  const res = await fetch(process.env.CLASSIFIER_URL!, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ text }),
  });
  if (!res.ok) throw new Error(`classifier answered ${res.status}`);
  const { score } = (await res.json()) as { score: number };
  return score > 0.85;
}

async function addStrike(report: Report): Promise<StrikeRecord> {
  const recordKey = `mod:${report.channelId}:${report.userId}:strikes`;
  const record = (await redis.get<StrikeRecord>(recordKey)) ?? { count: 0, messageIds: [], mutedUntil: null };

  if (record.messageIds.includes(report.messageId)) return record;
  if (!(await isAbusive(report.text))) return record;

  record.count += 1;
  record.messageIds.push(report.messageId);
  if (record.count >= 3) record.mutedUntil = Date.now() + 24 * 3600_000;

  await redis.set(recordKey, record);
  return record;
}

export async function POST(req: Request): Promise<Response> {
  const report = (await req.json()) as Report;
  const lockKey = `mod:${report.channelId}:${report.userId}:lock`;
  const token = crypto.randomUUID();

  const locked = await redis.set(lockKey, token, { nx: true, px: LOCK_TTL_MS });
  if (locked !== 'OK') {
    return Response.json({ error: 'user is being moderated' }, { status: 409, headers: { 'Retry-After': '2' } });
  }

  try {
    const record = await withTimeout(addStrike(report), REQUEST_TIMEOUT_MS);
    return Response.json({ strikes: record.count, mutedUntil: record.mutedUntil });
  } catch (err) {
    if (err instanceof TimeoutError) return Response.json({ error: 'timed out' }, { status: 504 });
    console.error('strike failed', report.messageId, err);
    return Response.json({ error: 'moderation failed' }, { status: 502 });
  } finally {
    await redis.eval(RELEASE, [lockKey], [token]).catch((err) => console.warn('unlock failed', lockKey, err));
  }
}
