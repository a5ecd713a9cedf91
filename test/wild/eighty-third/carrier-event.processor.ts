import { randomUUID } from 'node:crypto';
import { Job, Worker } from 'bullmq';
import Redis from 'ioredis';
import { PrismaClient } from '@prisma/client';
import { logger } from '../lib/logger';

interface CarrierEvent {
  shipmentId: string;
  code: 'PICKED_UP' | 'IN_TRANSIT' | 'DELIVERED' | 'RETURNED';
  at: string;
  place?: string;
}

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const prisma = new PrismaClient();

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function applyEvent(event: CarrierEvent) {
  await prisma.$transaction(
    async (tx) => {
      const shipment = await tx.shipment.findUniqueOrThrow({ where: { id: event.shipmentId } });
      await tx.shipmentEvent.create({
        data: { shipmentId: shipment.id, code: event.code, at: new Date(event.at), place: event.place },
      });
      if (new Date(event.at) > shipment.statusAt) {
        await tx.shipment.update({
          where: { id: shipment.id },
          data: { status: event.code, statusAt: new Date(event.at) },
        });
      }
    },
    { maxWait: 3_000, timeout: 8_000 },
  );
}

async function handle(job: Job<CarrierEvent>) {
  const key = `shipment:${job.data.shipmentId}:lock`;
  const token = randomUUID();

  const locked = await redis.set(key, token, 'PX', 30_000, 'NX');
  if (!locked) {
    logger.info({ jobId: job.id, key }, 'shipment is being updated by another worker, skipping');
    return { skipped: true };
  }

  try {
    await applyEvent(job.data);
    return { skipped: false };
  } finally {
    await redis.eval(UNLOCK, 1, key, token).catch((err) => logger.warn({ err, key }, 'unlock failed'));
  }
}

export const worker = new Worker<CarrierEvent>('carrier-events', handle, {
  connection: redis,
  concurrency: 10,
  removeOnComplete: { count: 1000 },
});
