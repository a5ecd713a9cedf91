import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import axios from 'axios';
import pino from 'pino';
import { nanoid } from 'nanoid';
import { prisma } from '../db/prisma';

const log = pino({ name: 'courier-dispatch' });
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class ZoneBusyError extends Error {}
class DispatchTimeoutError extends Error {}

async function withZoneLock<T>(
  zoneId: string,
  fn: () => Promise<T>,
  { ttlMs = 60_000, timeoutMs = 12_000 } = {},
): Promise<T> {
  const key = `dispatch:zone:${zoneId}`;
  const token = nanoid();
  const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
  if (reply !== 'OK') throw new ZoneBusyError(key);

  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new DispatchTimeoutError(`zone ${zoneId} took longer than ${timeoutMs} ms`)),
      timeoutMs,
    );
  });

  try {
    return await Promise.race([fn(), timeout]);
  } finally {
    clearTimeout(timer);
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'zone unlock failed'));
  }
}

type Plan = { courierId: string; parcelIds: string[] }[];

async function planRoutes(zoneId: string, parcelIds: string[], courierIds: string[]): Promise<Plan> {
  const { data } = await axios.post(
    `${process.env.ROUTING_URL}/plan`,
    { zoneId, parcelIds, courierIds },
    { timeout: 30_000 },
  );
  return data.routes;
}

async function dispatchZone(job: Job<{ zoneId: string }>) {
  const { zoneId } = job.data;

  return withZoneLock(zoneId, async () => {
    const [parcels, couriers] = await Promise.all([
      prisma.parcel.findMany({ where: { zoneId, status: 'READY' }, select: { id: true }, take: 200 }),
      prisma.courier.findMany({ where: { zoneId, onShift: true, tour: null }, select: { id: true } }),
    ]);
    if (parcels.length === 0 || couriers.length === 0) return 0;

    const plan = await planRoutes(zoneId, parcels.map((p) => p.id), couriers.map((c) => c.id));

    for (const route of plan) {
      await prisma.tour.create({
        data: {
          zoneId,
          courierId: route.courierId,
          stops: { create: route.parcelIds.map((parcelId, position) => ({ parcelId, position })) },
        },
      });
      await prisma.parcel.updateMany({
        where: { id: { in: route.parcelIds } },
        data: { status: 'ASSIGNED' },
      });
    }
    return plan.length;
  });
}

export const worker = new Worker('dispatch', dispatchZone, {
  connection: { url: process.env.QUEUE_REDIS_URL },
  concurrency: 8,
});

worker.on('completed', (job, tours) => log.info({ zone: job.data.zoneId, tours }, 'zone dispatched'));
worker.on('failed', (job, err) => log.warn({ err, zone: job?.data.zoneId }, 'dispatch failed, queue will retry'));
