import { PrismaClient } from '@prisma/client';
import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const prisma = new PrismaClient();

export class NoBedFree extends Error {
  constructor(ward: string) {
    super(`no free bed on ward ${ward}`);
  }
}

async function onWard<T>(wardId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const lost = new AbortController();
  const mutex = new Mutex(redis, `ward:${wardId}`, {
    lockTimeout: 10_000,
    refreshInterval: 3_000,
    acquireTimeout: 4_000,
    retryInterval: 50,
    onLockLost: (err) => lost.abort(err),
  });
  await mutex.acquire();
  try {
    return await fn(lost.signal);
  } finally {
    await mutex.release().catch((err) => console.error('release ward', wardId, err));
  }
}

export async function assignBed(admissionId: string): Promise<string> {
  const admission = await prisma.admission.findUniqueOrThrow({ where: { id: admissionId } });

  return onWard(admission.wardId, async (signal) => {
    const current = await prisma.admission.findUniqueOrThrow({ where: { id: admissionId } });
    if (current.bedId) return current.bedId;

    const bed = await prisma.bed.findFirst({
      where: {
        wardId: current.wardId,
        patientId: null,
        cleanedAt: { not: null },
        isolation: current.needsIsolation,
      },
      orderBy: { number: 'asc' },
    });
    if (!bed) throw new NoBedFree(current.wardId);

    signal.throwIfAborted();
    return prisma.$transaction(
      async (tx) => {
        const taken = await tx.bed.updateMany({
          where: { id: bed.id, patientId: null },
          data: { patientId: current.patientId, occupiedSince: new Date() },
        });
        if (taken.count !== 1) throw new Error(`bed ${bed.id} has just been taken`);

        const placed = await tx.admission.updateMany({
          where: { id: admissionId, bedId: null },
          data: { bedId: bed.id },
        });
        if (placed.count !== 1) throw new Error(`admission ${admissionId} already has a bed`);
        return bed.id;
      },
      { timeout: 5_000 },
    );
  });
}
