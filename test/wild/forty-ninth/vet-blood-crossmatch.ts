import type { FastifyInstance } from 'fastify';
import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { BloodUnit } from '../models/blood-unit';
import { Transfusion } from '../models/transfusion';
import { logger } from '../logger';

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => logger.debug({ err }, 'redis'));

const LOCK_MS = 30_000;
const WAIT_MS = 3_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface BankLock {
  key: string;
  token: string;
  until: number;
}

async function lockStock(species: string, group: string): Promise<BankLock | null> {
  const key = `bloodbank:${species}:${group}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + WAIT_MS;
  do {
    const until = Date.now() + LOCK_MS;
    try {
      const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
      if (reply === 'OK') return { key, token, until };
    } catch (err) {
      // The clinic must keep working during a Redis outage.
      logger.warn({ err, key }, 'stock lock unavailable, continuing');
      return { key, token, until };
    }
    await sleep(80 + Math.random() * 120);
  } while (Date.now() < giveUpAt);
  return null;
}

async function unlockStock(lock: BankLock) {
  await redis
    .eval(RELEASE, 1, lock.key, lock.token)
    .catch((err) => logger.warn({ err, key: lock.key }, 'stock lock not released'));
}

const Request = z.object({
  patientId: z.string(),
  species: z.enum(['canine', 'feline', 'equine']),
  group: z.string().max(12),
  clinicId: z.string(),
});

export async function crossmatchRoutes(app: FastifyInstance) {
  app.post('/crossmatches', async (request, reply) => {
    const parsed = Request.safeParse(request.body);
    if (!parsed.success) return reply.code(400).send(parsed.error.flatten());
    const { patientId, species, group, clinicId } = parsed.data;

    const lock = await lockStock(species, group);
    if (!lock) return reply.code(409).send({ error: 'stock is busy' });

    try {
      const unit = await BloodUnit.findOne({ species, group, status: 'available' })
        .sort({ expiresOn: 1 })
        .maxTimeMS(3_000);
      if (!unit) return reply.code(404).send({ error: `no ${group} in stock` });

      if (Date.now() > lock.until - 5_000) {
        return reply.code(503).send({ error: 'stock lookup took too long' });
      }
      unit.status = 'assigned';
      unit.assignedTo = patientId;
      await unit.save();

      const transfusion = await Transfusion.create({ patientId, clinicId, unitId: unit.id });
      return reply.code(201).send({ transfusionId: transfusion.id, bagNumber: unit.bagNumber });
    } finally {
      await unlockStock(lock);
    }
  });
}
