import { createClient } from 'redis';
import type { PrismaClient } from '@prisma/client';
import { v4 as uuidv4 } from 'uuid';
import { logger } from '../logger';

type RedisClient = ReturnType<typeof createClient>;

const LOCK_TTL_MS = 15_000;
const RETRY_MS = 120;
const DAY_MINUTES = 480;

export class BenchBusyError extends Error {
  constructor(benchId: string) {
    super(`bench ${benchId} is being scheduled by somebody else`);
  }
}

export class BenchFullError extends Error {
  constructor(benchId: string, day: string) {
    super(`bench ${benchId} has no room left on ${day}`);
  }
}

interface BenchWork {
  benchId: string;
  pianoId: string;
  technicianId: string;
  day: string;
  minutes: number;
}

/** Schedules restoration work (restringing, regulation, voicing) on the workshop's benches. */
export class PianoBenchBook {
  constructor(
    private readonly redis: RedisClient,
    private readonly prisma: PrismaClient,
  ) {}

  private key(benchId: string) {
    return `workshop:bench:${benchId}:lock`;
  }

  private async acquire(benchId: string, waitMs = 3_000): Promise<string> {
    const token = uuidv4();
    const until = Date.now() + waitMs;
    while (true) {
      const reply = await this.redis.set(this.key(benchId), token, { NX: true, PX: LOCK_TTL_MS });
      if (reply === 'OK') return token;
      if (Date.now() >= until) throw new BenchBusyError(benchId);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS + Math.random() * RETRY_MS));
    }
  }

  private async release(benchId: string, token: string): Promise<void> {
    const key = this.key(benchId);
    try {
      const current = await this.redis.get(key);
      if (current === token) {
        await this.redis.del(key);
      } else {
        logger.warn({ benchId }, 'bench lock had already moved on');
      }
    } catch (err) {
      logger.warn({ err, benchId }, 'bench lock not released');
    }
  }

  async book(work: BenchWork): Promise<{ id: string }> {
    const token = await this.acquire(work.benchId);
    try {
      return await this.prisma.$transaction(
        async (tx) => {
          const day = new Date(`${work.day}T00:00:00Z`);
          const planned = await tx.benchBooking.aggregate({
            where: { benchId: work.benchId, day },
            _sum: { minutes: true },
          });
          const used = planned._sum.minutes ?? 0;
          if (used + work.minutes > DAY_MINUTES) throw new BenchFullError(work.benchId, work.day);

          const piano = await tx.piano.findUniqueOrThrow({ where: { id: work.pianoId } });
          return tx.benchBooking.create({
            data: {
              benchId: work.benchId,
              pianoId: piano.id,
              technicianId: work.technicianId,
              day,
              startsAtMinute: used,
              minutes: work.minutes,
              needsHoist: piano.kind === 'GRAND',
            },
            select: { id: true },
          });
        },
        { maxWait: 2_000, timeout: 5_000 },
      );
    } finally {
      await this.release(work.benchId, token);
    }
  }
}
