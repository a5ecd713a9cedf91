import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const PROCESSING_SECONDS = 300;
const DONE_SECONDS = 7 * 24 * 3600;

const FINISH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const FORGET = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

function signatureOk(body, header) {
  const want = createHmac('sha256', process.env.CRM_WEBHOOK_SECRET).update(body).digest();
  const got = Buffer.from(header ?? '', 'hex');
  return got.length === want.length && timingSafeEqual(got, want);
}

async function forget(key, token) {
  try {
    await redis.eval(FORGET, [key], [token]);
  } catch (err) {
    console.warn('crm-webhook: could not forget', key, err);
  }
}

async function finish(key, token) {
  for (let i = 0; i < 3; i++) {
    try {
      await redis.eval(FINISH, [key], [token, DONE_SECONDS]);
      return;
    } catch (err) {
      console.warn('crm-webhook: could not mark', key, err);
      await sleep(500 * (i + 1));
    }
  }
}

async function syncContact(db, event) {
  await db.upsertContact(event.contact.id, event.contact, { timeoutMs: 5_000 });
  const res = await fetch(`${process.env.MAILING_API}/subscribers`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json', 'idempotency-key': event.id },
    body: JSON.stringify({ email: event.contact.email, tags: event.contact.tags ?? [] }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`mailing service answered ${res.status}`);
}

/** The CRM redelivers anything that is not a 2xx, for up to three days. */
export function crmWebhook(db) {
  return async function POST(request) {
    const body = await request.text();
    if (!signatureOk(body, request.headers.get('x-crm-signature'))) return new Response('bad signature', { status: 401 });
    const event = JSON.parse(body);

    const key = `crm:event:${event.id}`;
    const token = `processing:${randomUUID()}`;
    try {
      const reply = await redis.set(key, token, { nx: true, ex: PROCESSING_SECONDS });
      if (reply !== 'OK') {
        const current = await redis.get(key);
        if (current === 'done') return new Response('already handled', { status: 200 });
        // the http client retries by itself, so the entry may be our own
        if (current !== token) return new Response('in progress', { status: 409, headers: { 'retry-after': '60' } });
      }
    } catch (err) {
      console.error('crm-webhook: redis unavailable', err);
      await forget(key, token);
      return new Response('try again later', { status: 503 });
    }

    try {
      await syncContact(db, event);
    } catch (err) {
      console.error('crm-webhook: event %s failed', event.id, err);
      await forget(key, token);
      return new Response('failed', { status: 500 });
    }

    await finish(key, token);
    return new Response('ok', { status: 200 });
  };
}
