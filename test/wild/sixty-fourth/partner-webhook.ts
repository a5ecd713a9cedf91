import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import pRetry from 'p-retry';
import { renderContract } from './contracts.js';
import { sendMail } from './mail.js';

const redis = Redis.fromEnv();

const IN_PROGRESS_SECONDS = 30;
const DONE_SECONDS = 7 * 24 * 60 * 60;

/** Removes the marker of a failed run, but only our own. */
const CLEAR = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

interface Signup {
  deliveryId: string;
  companyId: string;
  email: string;
}

/**
 * Partner webhook, idempotent.
 *
 * The partner repeats a delivery every minute until it gets a 2xx, and it hangs
 * up after ten seconds. So a delivery is marked in Redis with SET NX before it is
 * worked on; repeated deliveries find the marker and are answered with 429 (in
 * progress) or 200 (done) without doing anything twice. If the work fails, the
 * marker is taken away and the next delivery tries again. If the process dies,
 * the marker goes away by itself.
 */
export async function handleSignup(signup: Signup): Promise<Response> {
  const key = `partner:delivery:${signup.deliveryId}`;
  const marker = `working:${randomUUID()}`;

  const claimed = await redis.set(key, marker, { nx: true, ex: IN_PROGRESS_SECONDS });
  if (claimed !== 'OK') {
    const state = await redis.get<string>(key);
    return state === 'done'
      ? new Response('already processed', { status: 200 })
      : new Response('in progress', { status: 429, headers: { 'retry-after': '60' } });
  }

  try {
    await processSignup(signup);
  } catch (err) {
    await redis.eval(CLEAR, [key], [marker]);
    throw err;
  }

  await redis.set(key, 'done', { ex: DONE_SECONDS });
  return new Response('ok', { status: 200 });
}

/** Takes two to four minutes, most of it in the CRM. */
async function processSignup(signup: Signup): Promise<void> {
  const account = await pRetry(() => putAccount(signup), {
    retries: 4,
    minTimeout: 5_000,
    factor: 2,
  });

  // draws the next contract number and files the contract under it
  const pdf = await renderContract(account.id, { timeout: 90_000 });
  await sendMail({
    to: signup.email,
    subject: 'Your contract',
    timeout: 30_000,
    attachments: [{ filename: 'contract.pdf', content: pdf }],
  });
}

async function putAccount(signup: Signup): Promise<{ id: string }> {
  const res = await fetch(`${process.env.CRM_URL}/accounts/${signup.companyId}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: signup.email }),
    signal: AbortSignal.timeout(60_000),
  });
  if (!res.ok) throw new Error(`CRM answered ${res.status}`);
  return (await res.json()) as { id: string };
}
