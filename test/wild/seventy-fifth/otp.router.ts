import { TRPCError } from '@trpc/server';
import { createHash, randomInt } from 'node:crypto';
import { createClient } from 'redis';
import { z } from 'zod';
import { publicProcedure, router } from '../trpc';
import { sendSms } from '../sms';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('[otp] redis', err));
await redis.connect();

const COOLDOWN_SECONDS = 60;
const CODE_SECONDS = 10 * 60;
const MAX_TRIES = 5;

const phone = z.string().regex(/^\+[1-9]\d{7,14}$/);
const hash = (code: string, number: string) => createHash('sha256').update(`${number}:${code}`).digest('hex');

/** One SMS per number per minute. True when the caller may send now. */
async function passCooldown(number: string): Promise<boolean> {
  const key = `otp:cooldown:${number}`;
  const first = await redis.setNX(key, new Date().toISOString());
  if (!first) return false;
  await redis.expire(key, COOLDOWN_SECONDS);
  return true;
}

export const otpRouter = router({
  request: publicProcedure.input(z.object({ phone })).mutation(async ({ input }) => {
    if (!(await passCooldown(input.phone))) {
      throw new TRPCError({ code: 'TOO_MANY_REQUESTS', message: 'Please wait a minute before asking for a new code.' });
    }

    const code = String(randomInt(0, 1_000_000)).padStart(6, '0');
    await redis
      .multi()
      .set(`otp:code:${input.phone}`, hash(code, input.phone), { EX: CODE_SECONDS })
      .del(`otp:tries:${input.phone}`)
      .exec();
    await sendSms(input.phone, `Your code is ${code}. It is valid for 10 minutes.`);
    return { ok: true };
  }),

  verify: publicProcedure
    .input(z.object({ phone, code: z.string().length(6) }))
    .mutation(async ({ input }) => {
      const [tries] = await redis
        .multi()
        .incr(`otp:tries:${input.phone}`)
        .expire(`otp:tries:${input.phone}`, CODE_SECONDS)
        .exec();
      if (Number(tries) > MAX_TRIES) throw new TRPCError({ code: 'TOO_MANY_REQUESTS' });

      const expected = await redis.get(`otp:code:${input.phone}`);
      if (!expected || expected !== hash(input.code, input.phone)) {
        throw new TRPCError({ code: 'UNAUTHORIZED', message: 'Wrong or expired code.' });
      }
      // the one that deletes it has used it
      if ((await redis.del(`otp:code:${input.phone}`)) !== 1) throw new TRPCError({ code: 'UNAUTHORIZED' });
      return { verified: true };
    }),
});
