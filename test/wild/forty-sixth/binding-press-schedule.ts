import { Hono } from 'hono';
import Redis from 'ioredis';
import { v4 as uuid } from 'uuid';
import { and, eq } from 'drizzle-orm';
import { z } from 'zod';
import { db } from './db';
import { presses, bindingJobs } from './schema';
import { log } from './logger';

const redis = new Redis(process.env.REDIS_URL!);

// Our managed Redis has scripting switched off, hence WATCH/MULTI for the release.
class PressLock implements AsyncDisposable {
  private constructor(private readonly key: string, private readonly token: string) {}

  static async take(pressId: string, ttlMs: number): Promise<PressLock | null> {
    const key = `press:${pressId}`;
    const token = uuid();
    const ok = await redis.set(key, token, 'PX', ttlMs, 'NX');
    return ok === 'OK' ? new PressLock(key, token) : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // WATCH belongs to a connection, so it must not be the shared one.
    const conn = redis.duplicate({ maxRetriesPerRequest: 0, retryStrategy: () => null });
    conn.on('error', () => undefined);
    try {
      await conn.watch(this.key);
      if ((await conn.get(this.key)) === this.token) {
        await conn.multi().del(this.key).exec();
      }
    } catch (err) {
      log.warn({ err, key: this.key }, 'press lock not released, expires by itself');
    } finally {
      conn.disconnect();
    }
  }
}

const Enqueue = z.object({
  title: z.string().min(1),
  copies: z.number().int().positive(),
  minutesPerCopy: z.number().positive(),
  dueOn: z.coerce.date(),
});

export const app = new Hono();

app.post('/presses/:id/jobs', async (c) => {
  const body = Enqueue.safeParse(await c.req.json());
  if (!body.success) return c.json(body.error.flatten(), 400);
  const pressId = c.req.param('id');
  const job = body.data;

  await using lock = await PressLock.take(pressId, 20_000);
  if (!lock) return c.json({ error: 'press schedule is being edited' }, 423);

  const [press] = await db.select().from(presses).where(eq(presses.id, pressId));
  if (!press) return c.json({ error: 'unknown press' }, 404);

  const startAt = new Date(Math.max(Date.now(), press.freeFrom.getTime()));
  const endAt = new Date(startAt.getTime() + job.copies * job.minutesPerCopy * 60_000);
  if (endAt > job.dueOn) {
    return c.json({ error: 'cannot be bound in time', earliest: endAt.toISOString() }, 409);
  }

  const saved = await db.transaction(async (tx) => {
    const moved = await tx
      .update(presses)
      .set({ freeFrom: endAt, revision: press.revision + 1 })
      .where(and(eq(presses.id, pressId), eq(presses.revision, press.revision)))
      .returning({ id: presses.id });
    if (moved.length === 0) return null;
    const [row] = await tx
      .insert(bindingJobs)
      .values({ pressId, title: job.title, copies: job.copies, startAt, endAt })
      .returning();
    return row;
  });
  if (!saved) return c.json({ error: 'schedule changed, send it again' }, 409);
  return c.json({ id: saved.id, startAt, endAt }, 201);
});
