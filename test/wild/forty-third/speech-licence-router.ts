import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { initTRPC, TRPCError } from '@trpc/server';
import { z } from 'zod';

const redis = Redis.fromEnv();
const t = initTRPC.create();

/** The speech vendor licenses us for this many simultaneous sessions and suspends the account beyond it. */
const MAX_SESSIONS = 4;
/** A slot that was never given back (crashed instance) becomes free after this time. */
const SLOT_MS = 120_000;
/** Hard limit for one transcription. */
const REQUEST_MS = 60_000;

const SLOTS_KEY = 'speech:sessions';

const ACQUIRE_SLOT = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  if redis.call('ZCARD', KEYS[1]) <= tonumber(ARGV[2]) then
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return 1
  end
  return 0
`;

async function acquireSlot(waitMs: number): Promise<string | null> {
  const id = randomUUID();
  const deadline = Date.now() + waitMs;

  for (;;) {
    const acquired = await redis.eval<string[], number>(
      ACQUIRE_SLOT,
      [SLOTS_KEY],
      [id, String(MAX_SESSIONS), String(SLOT_MS)],
    );
    if (acquired === 1) return id;
    if (Date.now() >= deadline) return null;
    await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 200));
  }
}

async function releaseSlot(id: string): Promise<void> {
  try {
    await redis.zrem(SLOTS_KEY, id);
  } catch (error) {
    console.error('Failed to release speech slot, it will expire', { id, error });
  }
}

async function withSlot<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const id = await acquireSlot(15_000);
  if (!id) {
    throw new TRPCError({ code: 'TOO_MANY_REQUESTS', message: 'All transcription sessions are in use' });
  }
  try {
    return await fn(AbortSignal.timeout(REQUEST_MS));
  } finally {
    await releaseSlot(id);
  }
}

export const speechRouter = t.router({
  transcribe: t.procedure
    .input(z.object({ audioUrl: z.string().url(), language: z.string().length(2) }))
    .mutation(({ input }) =>
      withSlot(async (signal) => {
        const response = await fetch(`${process.env.SPEECH_URL}/v1/sessions`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${process.env.SPEECH_TOKEN}`,
            'content-type': 'application/json',
          },
          body: JSON.stringify(input),
          signal,
        });
        if (!response.ok) {
          throw new TRPCError({ code: 'BAD_GATEWAY', message: `Speech vendor returned ${response.status}` });
        }
        const { text } = (await response.json()) as { text: string };
        return { text };
      }),
    ),
});

export type SpeechRouter = typeof speechRouter;
