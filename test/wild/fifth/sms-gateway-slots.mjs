import { createClient } from 'redis';
import { setTimeout as sleep } from 'node:timers/promises';

// The SMS provider allows 10 open requests per account, we have ~30 workers.

const settings = {
  url: process.env.REDIS_URL ?? 'redis://localhost:6379',
  max: Number(process.env.SMS_MAX_PARALLEL ?? 10),
  counterTtl: 120, // seconds, longer than any request
  requestMs: 30_000,
  pauseMs: 250,
};

const FREE = `
local n = tonumber(redis.call('GET', KEYS[1]) or '0')
if n > 0 then return redis.call('DECR', KEYS[1]) end
return 0`;

export class SmsSlots {
  #redis;
  #key;

  constructor(redis, account) {
    this.#redis = redis;
    this.#key = `sms:slots:${account}`;
  }

  static async connect(account) {
    const redis = createClient({ url: settings.url });
    redis.on('error', (err) => console.error('[sms]', err.message));
    await redis.connect();
    return new SmsSlots(redis, account);
  }

  async tryTake() {
    const [open] = await this.#redis.multi().incr(this.#key).expire(this.#key, settings.counterTtl).exec();
    if (Number(open) <= settings.max) return true;
    console.debug(`[sms] all ${settings.max} slots in use`);
    return false;
  }

  async take(patienceMs) {
    const until = performance.now() + patienceMs;
    while (!(await this.tryTake())) {
      if (performance.now() >= until) return false;
      await sleep(settings.pauseMs * (0.5 + Math.random()));
    }
    return true;
  }

  async free() {
    for (let i = 0; i < 3; i++) {
      try {
        await this.#redis.eval(FREE, { keys: [this.#key] });
        return;
      } catch (err) {
        console.warn(`[sms] slot not given back (${i + 1}/3):`, err.message);
        await sleep(200);
      }
    }
  }
}

export async function sendSms(slots, message) {
  if (!(await slots.take(20_000))) {
    return { status: 'deferred' };
  }
  try {
    const res = await fetch(`${process.env.SMS_API}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.SMS_TOKEN}` },
      body: JSON.stringify({ to: message.to, text: message.text, ref: message.id }),
      signal: AbortSignal.timeout(settings.requestMs),
    });
    if (!res.ok) return { status: 'failed', code: res.status };
    return { status: 'sent', ...(await res.json()) };
  } finally {
    await slots.free();
  }
}

/** bullmq style processor */
export function createProcessor(slots, queue) {
  return async (job) => {
    const out = await sendSms(slots, job.data);
    if (out.status === 'deferred') await queue.add('sms', job.data, { delay: 5_000 });
    if (out.status === 'failed') throw new Error(`provider said ${out.code}`);
    return out;
  };
}
