/**
 * GET /api/cron/digest: sends the weekly digest to the members of every workspace.
 *
 * The platform calls this every five minutes and now and then calls it twice. A run
 * takes what is pending and marks it as sent, so two runs must not work side by side.
 * The platform ends a run after `maxDuration` seconds, well before the lock expires.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

export const maxDuration = 60;
export const dynamic = 'force-dynamic';

const LOCK_KEY = 'cron:digest:lock';
const LOCK_MS = 120_000;
const API = process.env.INTERNAL_API_URL ?? 'http://localhost:4000';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const redis = Redis.fromEnv();

/** Another run is at work; the next call will pick up what it leaves. */
export class DigestRunningError extends Error {
  override name = 'DigestRunningError';
}

/** The internal API refused a request. */
export class DigestApiError extends Error {
  override name = 'DigestApiError';
}

interface PendingDigest {
  id: string;
  email: string;
  html: string;
}

async function api<T>(path: string, init: RequestInit = {}): Promise<T> {
  const res = await fetch(`${API}${path}`, {
    ...init,
    headers: {
      authorization: `Bearer ${process.env.INTERNAL_API_KEY}`,
      'content-type': 'application/json',
    },
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new DigestApiError(`${path}: ${res.status}`);
  return (await res.json()) as T;
}

/**
 * Takes the lock of the digest run.
 *
 * @returns the token to give it back with
 * @throws {DigestRunningError}
 */
async function acquire(): Promise<string> {
  const token = randomUUID();
  const created = await redis.setnx(LOCK_KEY, token);
  if (created !== 1) throw new DigestRunningError('a digest run is in progress');
  await redis.pexpire(LOCK_KEY, LOCK_MS);
  return token;
}

/** Gives the lock back, provided that it is still ours. */
async function release(token: string): Promise<void> {
  try {
    await redis.eval<string[], number>(RELEASE, [LOCK_KEY], [token]);
  } catch (err) {
    console.warn('digest lock not released', err);
  }
}

async function sendPending(): Promise<number> {
  const pending = await api<PendingDigest[]>('/digests/pending?limit=40');
  let sent = 0;
  for (const digest of pending) {
    await api('/mail', {
      method: 'POST',
      body: JSON.stringify({ to: digest.email, html: digest.html }),
    });
    await api(`/digests/${digest.id}/sent`, { method: 'PUT' });
    sent += 1;
  }
  return sent;
}

export async function GET(request: Request): Promise<Response> {
  if (request.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('unauthorized', { status: 401 });
  }

  let token: string;
  try {
    token = await acquire();
  } catch (err) {
    if (err instanceof DigestRunningError) {
      return Response.json({ skipped: true, reason: err.message });
    }
    throw err;
  }

  try {
    const sent = await sendPending();
    return Response.json({ sent });
  } finally {
    await release(token);
  }
}
