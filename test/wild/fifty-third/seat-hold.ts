import { Prisma, PrismaClient } from '@prisma/client';
import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import { addMinutes } from 'date-fns';
import { z } from 'zod';

export const holdRequest = z.object({
  showId: z.string().uuid(),
  seats: z.array(z.string().regex(/^[A-Z]{1,2}\d{1,3}$/)).min(1).max(8),
  customerId: z.string().uuid(),
});
export type HoldRequest = z.infer<typeof holdRequest>;

export class SeatsTakenError extends Error {
  readonly status = 409;
  constructor(readonly seats: string[]) {
    super(`seats not available: ${seats.join(', ')}`);
    this.name = 'SeatsTakenError';
  }
}

export class SeatsBusyError extends Error {
  readonly status = 423;
}

const HOLD_MINUTES = Number(process.env.SEAT_HOLD_MINUTES ?? 10);

const prisma = new PrismaClient();
const redlock = new Redlock([new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1/0')], {
  driftFactor: 0.01,
  retryCount: 6,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 1_500,
});

async function insertHolds(req: HoldRequest, seats: string[], signal: { aborted: boolean; error?: Error }) {
  return prisma.$transaction(
    async (tx) => {
      const now = new Date();
      await tx.seatHold.deleteMany({
        where: { showId: req.showId, seat: { in: seats }, expiresAt: { lt: now }, soldAt: null },
      });
      const taken = await tx.seatHold.findMany({
        where: { showId: req.showId, seat: { in: seats } },
        select: { seat: true },
      });
      if (taken.length > 0) throw new SeatsTakenError(taken.map((t) => t.seat));
      if (signal.aborted) throw signal.error ?? new SeatsBusyError('lock lost');

      const expiresAt = addMinutes(now, HOLD_MINUTES);
      await tx.seatHold.createMany({
        data: seats.map((seat) => ({
          showId: req.showId,
          seat,
          customerId: req.customerId,
          expiresAt,
        })),
      });
      return { seats, expiresAt };
    },
    { maxWait: 1_500, timeout: 4_000 },
  );
}

export async function holdSeats(input: unknown) {
  const req = holdRequest.parse(input);
  const seats = [...new Set(req.seats)].sort();
  const resources = seats.map((seat) => `seat:{${req.showId}}:${seat}`);

  try {
    return await redlock.using(resources, 8_000, (signal) => insertHolds(req, seats, signal));
  } catch (err) {
    // @@unique([showId, seat])
    if (err instanceof Prisma.PrismaClientKnownRequestError && err.code === 'P2002') {
      throw new SeatsTakenError(seats);
    }
    if (err instanceof ExecutionError) throw new SeatsBusyError('seats are being held by someone else');
    throw err;
  }
}
