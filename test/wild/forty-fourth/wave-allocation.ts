import axios from 'axios';
import type { FastifyInstance } from 'fastify';
import Redis from 'ioredis';
import { PrismaClient } from '@prisma/client';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';
import { z } from 'zod';

const prisma = new PrismaClient();

const nodes = (process.env.LOCK_REDIS_URLS ?? '')
  .split(',')
  .map((url) => new Redis(url.trim(), { commandTimeout: 500, maxRetriesPerRequest: 1 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 4_000,
});

const LOCK_MS = 15_000;

interface CarrierSlot {
  carrier: string;
  cutoff: string;
  parcels: number;
}

class WaveConflict extends Error {}

async function fetchSlots(warehouseId: string, signal: AbortSignal): Promise<CarrierSlot[]> {
  const res = await axios.get<CarrierSlot[]>(`${process.env.CARRIER_GATEWAY}/slots`, {
    params: { warehouseId },
    timeout: 20_000,
    signal,
  });
  return res.data;
}

async function allocate(waveId: string) {
  const wave = await prisma.wave.findUniqueOrThrow({ where: { id: waveId } });

  return redlock.using([`wms:warehouse:${wave.warehouseId}`], LOCK_MS, async (signal) => {
    const current = await prisma.wave.findUniqueOrThrow({
      where: { id: waveId },
      include: { lines: true },
    });
    if (current.status === 'ALLOCATED') return current;
    if (current.status !== 'RELEASED') throw new WaveConflict(`wave is ${current.status}`);

    // usually 1-2 s, but the gateway has bad days
    const slots = await fetchSlots(current.warehouseId, signal);
    if (signal.aborted) throw signal.error ?? new Error('lock lost');

    const slot = slots.find((s) => s.parcels >= current.lines.length);
    if (!slot) throw new WaveConflict('no carrier slot left for this wave');

    return prisma.$transaction(
      async (tx) => {
        const claimed = await tx.wave.updateMany({
          where: { id: waveId, version: current.version, status: 'RELEASED' },
          data: {
            status: 'ALLOCATED',
            carrier: slot.carrier,
            cutoffAt: new Date(slot.cutoff),
            version: { increment: 1 },
          },
        });
        if (claimed.count !== 1) throw new WaveConflict('wave changed meanwhile');

        for (const line of current.lines) {
          const reserved = await tx.binStock.updateMany({
            where: { binId: line.binId, sku: line.sku, available: { gte: line.quantity } },
            data: { available: { decrement: line.quantity } },
          });
          if (reserved.count !== 1) throw new WaveConflict(`not enough ${line.sku} in ${line.binId}`);
        }
        return tx.wave.findUniqueOrThrow({ where: { id: waveId }, include: { lines: true } });
      },
      { timeout: 8_000 },
    );
  });
}

export async function waveRoutes(app: FastifyInstance) {
  redlock.on('error', (err) => {
    if (err instanceof ResourceLockedError) return;
    app.log.error({ err }, 'redlock');
  });

  app.post('/waves/:id/allocate', async (req, reply) => {
    const { id } = z.object({ id: z.string().uuid() }).parse(req.params);
    try {
      return reply.send(await allocate(id));
    } catch (err) {
      if (err instanceof WaveConflict) return reply.code(409).send({ error: err.message });
      if (err instanceof ExecutionError) {
        // Safe to send again: an allocated wave is simply returned.
        return reply.code(409).header('retry-after', '2').send({ error: 'warehouse busy' });
      }
      throw err;
    }
  });
}
