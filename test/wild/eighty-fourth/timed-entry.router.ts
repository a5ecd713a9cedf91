import { randomUUID } from 'node:crypto';
import { initTRPC, TRPCError } from '@trpc/server';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { z } from 'zod';

const HOLD_MS = 8 * 60_000;
const CONFIRM_MS = 60_000;

const HOLD = `
for i = 1, #KEYS do
  local owner = redis.call('GET', KEYS[i])
  if owner and owner ~= ARGV[1] then return i end
end
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
return 0`;

const KEEP = `
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then return 0 end
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
return 1`;

const DROP = `
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then redis.call('DEL', KEYS[i]) end
end
return 1`;

/** Sorted, without repetitions: the order in which rows are written. */
const places = z
  .array(z.number().int().positive())
  .min(1)
  .max(12)
  .transform((list) => [...new Set(list)].sort((a, b) => a - b));

const slotId = z.string().regex(/^[a-z0-9-]{6,40}$/);

const keysOf = (slot: string, list: number[]) => list.map((n) => `{entry:${slot}}:${n}`);

/** Places for timed entry: first a hold in Redis, then a row in `tickets (slot_id, place_no) UNIQUE`. */
export function timedEntryRouter({ redis, pool }: { redis: Redis; pool: Pool }) {
  const t = initTRPC.create();

  const drop = (keys: string[], holdId: string) =>
    redis.eval(DROP, keys.length, ...keys, holdId).catch(() => undefined);

  return t.router({
    hold: t.procedure.input(z.object({ slot: slotId, places })).mutation(async ({ input }) => {
      const holdId = randomUUID();
      const keys = keysOf(input.slot, input.places);
      const taken = Number(await redis.eval(HOLD, keys.length, ...keys, holdId, HOLD_MS));
      if (taken > 0) {
        throw new TRPCError({ code: 'CONFLICT', message: `place ${input.places[taken - 1]} is held` });
      }
      try {
        const sold = await pool.query(
          'SELECT place_no FROM tickets WHERE slot_id = $1 AND place_no = ANY($2::int[])',
          [input.slot, input.places],
        );
        if (sold.rows.length > 0) throw new TRPCError({ code: 'CONFLICT', message: 'already sold' });
      } catch (err) {
        await drop(keys, holdId);
        throw err;
      }
      return { holdId, holdMs: HOLD_MS };
    }),

    confirm: t.procedure
      .input(z.object({ slot: slotId, places, holdId: z.string().uuid() }))
      .mutation(async ({ input }) => {
        const { slot, holdId } = input;
        const keys = keysOf(slot, input.places);
        const kept = await redis.eval(KEEP, keys.length, ...keys, holdId, CONFIRM_MS);
        if (kept !== 1) {
          const mine = await pool.query(
            'SELECT 1 FROM tickets WHERE slot_id = $1 AND place_no = ANY($2::int[]) AND order_id = $3',
            [slot, input.places, holdId],
          );
          if (mine.rows.length === input.places.length) return { orderId: holdId };
          throw new TRPCError({ code: 'PRECONDITION_FAILED', message: 'the hold has run out' });
        }
        const db = await pool.connect();
        try {
          await db.query('BEGIN');
          const written = await db.query(
            `INSERT INTO tickets (slot_id, place_no, order_id)
             SELECT $1, unnest($2::int[]), $3
             ON CONFLICT (slot_id, place_no) DO UPDATE SET order_id = tickets.order_id
             WHERE tickets.order_id = EXCLUDED.order_id`,
            [slot, input.places, holdId],
          );
          if (written.rowCount !== input.places.length) {
            throw new TRPCError({ code: 'CONFLICT', message: 'a place was sold meanwhile' });
          }
          await db.query('COMMIT');
        } catch (err) {
          await db.query('ROLLBACK').catch(() => undefined);
          throw err;
        } finally {
          db.release();
        }
        await drop(keys, holdId);
        return { orderId: holdId };
      }),
  });
}
