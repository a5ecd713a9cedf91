import type { FastifyInstance } from 'fastify';
import { createClient } from 'redis';
import { Prisma, PrismaClient } from '@prisma/client';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const prisma = new PrismaClient();
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err.message));

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class AgendaBusy extends Error {}
class Overlap extends Error {}

class AgendaLock implements AsyncDisposable {
  readonly key: string;
  readonly #token: string;

  private constructor(key: string, token: string) {
    this.key = key;
    this.#token = token;
  }

  static async acquire(practitionerId: string, { ttlMs = 20_000, waitMs = 3_000 } = {}) {
    const key = `lock:agenda:${practitionerId}`;
    const token = randomUUID();
    const until = Date.now() + waitMs;
    for (;;) {
      const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
      if (reply === 'OK') return new AgendaLock(key, token);
      if (Date.now() >= until) throw new AgendaBusy(key);
      await sleep(40 + Math.random() * 80);
    }
  }

  async [Symbol.asyncDispose]() {
    try {
      await redis.eval(RELEASE, { keys: [this.key], arguments: [this.#token] });
    } catch (err) {
      console.warn('agenda lock not released', this.key, err);
    }
  }
}

const Booking = z.object({
  practitionerId: z.string().uuid(),
  patientId: z.string().uuid(),
  startsAt: z.coerce.date(),
  minutes: z.number().int().min(5).max(120),
});

async function book(input: z.infer<typeof Booking>) {
  const endsAt = new Date(input.startsAt.getTime() + input.minutes * 60_000);

  await using _lock = await AgendaLock.acquire(input.practitionerId);

  const appointment = await prisma.$transaction(
    async (tx) => {
      const clash = await tx.appointment.findFirst({
        where: {
          practitionerId: input.practitionerId,
          cancelledAt: null,
          startsAt: { lt: endsAt },
          endsAt: { gt: input.startsAt },
        },
        select: { id: true },
      });
      if (clash) throw new Overlap(clash.id);
      return tx.appointment.create({
        data: {
          practitionerId: input.practitionerId,
          patientId: input.patientId,
          startsAt: input.startsAt,
          endsAt,
        },
      });
    },
    { isolationLevel: Prisma.TransactionIsolationLevel.Serializable, maxWait: 2_000, timeout: 5_000 },
  );
  return appointment;
}

export default async function agendaRoutes(app: FastifyInstance) {
  app.addHook('onReady', async () => { await redis.connect(); });
  app.addHook('onClose', async () => { await redis.quit(); await prisma.$disconnect(); });

  app.post('/appointments', async (req, reply) => {
    const input = Booking.parse(req.body);
    try {
      return reply.code(201).send(await book(input));
    } catch (err) {
      if (err instanceof Overlap) return reply.code(409).send({ error: 'slot_taken' });
      if (err instanceof AgendaBusy) return reply.code(503).header('retry-after', '1').send({ error: 'busy' });
      if (err instanceof Prisma.PrismaClientKnownRequestError && err.code === 'P2034') {
        return reply.code(409).send({ error: 'slot_taken' });
      }
      throw err;
    }
  });
}
