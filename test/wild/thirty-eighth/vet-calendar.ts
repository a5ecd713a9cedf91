import { Prisma, PrismaClient, type Appointment } from '@prisma/client';
import Redis from 'ioredis';
import Redlock from 'redlock5';

const prisma = new PrismaClient();

const nodes = ['redis-a', 'redis-b', 'redis-c'].map(
  (host) => new Redis({ host, port: 6379, maxRetriesPerRequest: 1, commandTimeout: 500 }),
);
for (const node of nodes) node.on('error', (err) => console.warn('redis', err.message));

const redlock = new Redlock(nodes, {
  retryCount: 8,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 3_000,
});
redlock.on('error', (err: Error) => {
  if (err.name !== 'ResourceLockedError') console.warn('redlock', err);
});

export class Taken extends Error {}
export class CalendarBusy extends Error {}

export interface Wish {
  vetId: string;
  petId: string;
  startsAt: Date;
  minutes: number;
}

async function isAway(vetId: string, startsAt: Date, endsAt: Date): Promise<boolean> {
  const q = new URLSearchParams({ vet: vetId, from: startsAt.toISOString(), to: endsAt.toISOString() });
  const res = await fetch(`${process.env.ROSTER_URL}/absences?${q}`, { signal: AbortSignal.timeout(5_000) });
  if (!res.ok) throw new Error(`roster answered ${res.status}`);
  return ((await res.json()) as unknown[]).length > 0;
}

export class VetCalendar {
  async book(wish: Wish): Promise<Appointment> {
    const { vetId, petId, startsAt } = wish;
    const endsAt = new Date(startsAt.getTime() + wish.minutes * 60_000);
    let booked: Appointment | undefined;
    try {
      await redlock.using([`vet:${vetId}`], 10_000, async (signal) => {
        if (await isAway(vetId, startsAt, endsAt)) throw new Taken(`${vetId} is away`);
        if (signal.aborted) throw signal.error ?? new CalendarBusy(vetId);

        booked = await prisma.$transaction(
          async (tx) => {
            const clash = await tx.appointment.findFirst({
              where: { vetId, startsAt: { lt: endsAt }, endsAt: { gt: startsAt } },
            });
            if (clash) throw new Taken(`${vetId} has an appointment at ${clash.startsAt.toISOString()}`);
            return tx.appointment.create({ data: { vetId, petId, startsAt, endsAt } });
          },
          { isolationLevel: Prisma.TransactionIsolationLevel.Serializable, maxWait: 1_000, timeout: 4_000 },
        );
      });
    } catch (err) {
      if (booked) {
        // It is in the book; only giving the lock back went wrong.
        console.warn('vet %s: lock not given back', vetId, err);
        return booked;
      }
      if (err instanceof Error && err.name === 'ExecutionError') throw new CalendarBusy(vetId);
      throw err;
    }
    return booked!;
  }
}
