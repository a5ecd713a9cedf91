import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import pino from 'pino';
import { z } from 'zod';

const log = pino({ name: 'render-slots' });

const env = z
  .object({
    REDIS_URL: z.string().url(),
    RENDERER_URL: z.string().url(),
    // our plan with the PDF renderer: this many requests open at once, over all pods
    RENDER_SLOTS: z.coerce.number().int().positive().default(6),
  })
  .parse(process.env);

const redis = createClient({ url: env.REDIS_URL });
redis.on('error', (err) => log.warn({ err }, 'redis error'));

const KEY = 'sem:pdf-renderer';
const SLOT_TTL_MS = 60_000;
const MARGIN_MS = 5_000;

// Members are holders, scores the moment (on the server's clock) at which the slot lapses.
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

export class NoSlotError extends Error {}

/**
 * Runs `work` in one of the slots. The signal fires before the slot lapses in Redis; `work`
 * has to drop its connection then.
 */
export async function withRenderSlot<T>(waitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const holder = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  let takenAt: number;

  for (;;) {
    takenAt = performance.now();
    const got = await redis.eval(TAKE, {
      keys: [KEY],
      arguments: [holder, String(env.RENDER_SLOTS), String(SLOT_TTL_MS)],
    });
    if (got === 1) break;
    if (performance.now() >= giveUpAt) throw new NoSlotError(`no render slot within ${waitMs}ms`);
    await sleep(150 + Math.random() * 200);
  }

  try {
    const budget = Math.floor(takenAt + SLOT_TTL_MS - MARGIN_MS - performance.now());
    if (budget <= 0) throw new NoSlotError('slot came too late');
    return await work(AbortSignal.timeout(budget));
  } finally {
    // Only ever removes our own member.
    await redis.zRem(KEY, holder).catch((err) => log.warn({ err }, 'slot not given back, will lapse'));
  }
}

export async function renderPdf(html: string): Promise<Buffer> {
  if (!redis.isOpen) await redis.connect();
  return withRenderSlot(20_000, async (signal) => {
    const started = performance.now();
    const res = await fetch(`${env.RENDERER_URL}/v1/pdf`, {
      method: 'POST',
      headers: { 'content-type': 'text/html; charset=utf-8' },
      body: html,
      signal,
    });
    if (!res.ok) {
      await res.body?.cancel();
      throw new Error(`renderer answered ${res.status}`);
    }
    const pdf = Buffer.from(await res.arrayBuffer());
    log.info({ bytes: pdf.length, ms: Math.round(performance.now() - started) }, 'rendered');
    return pdf;
  });
}
