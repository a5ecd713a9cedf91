import cron from 'node-cron';
import Redis from 'ioredis';
import { PrismaClient } from '@prisma/client';
import { ExecutionError, Redlock } from '@sesamecare-oss/redlock';
import { startOfDay } from 'date-fns';
import pino from 'pino';

const log = pino({ name: 'points-expiry' });
const prisma = new PrismaClient();
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const redlock = new Redlock([redis], { retryCount: 0 });

const PROGRAMS = (process.env.LOYALTY_PROGRAMS ?? 'classic,business').split(',');
const LOCK_MS = 30_000;

interface DueLot {
  id: string;
  accountId: string;
  remaining: number;
}

async function expireLot(lot: DueLot): Promise<void> {
  await prisma.$transaction([
    prisma.pointsLot.update({ where: { id: lot.id }, data: { remaining: 0, expiredAt: new Date() } }),
    prisma.pointsAccount.update({
      where: { id: lot.accountId },
      data: { balance: { decrement: lot.remaining } },
    }),
    prisma.pointsEntry.create({
      data: { accountId: lot.accountId, kind: 'EXPIRY', points: -lot.remaining, lotId: lot.id },
    }),
  ]);
}

async function expireProgram(program: string): Promise<void> {
  await redlock.using(
    [`loyalty:expiry:${program}`],
    LOCK_MS,
    { automaticExtensionThreshold: 5_000 },
    async (signal) => {
      const due: DueLot[] = await prisma.pointsLot.findMany({
        where: { program, expiredAt: null, expiresAt: { lt: startOfDay(new Date()) } },
        select: { id: true, accountId: true, remaining: true },
        orderBy: { expiresAt: 'asc' },
        take: 2_000,
      });
      log.info({ program, due: due.length }, 'expiring lots');

      due.forEach(async (lot) => {
        if (signal.aborted) return;
        try {
          await expireLot(lot);
        } catch (err) {
          log.error({ err, lotId: lot.id }, 'lot not expired');
        }
      });
    },
  );
}

cron.schedule('*/10 1-5 * * *', async () => {
  for (const program of PROGRAMS) {
    try {
      await expireProgram(program);
    } catch (err) {
      if (err instanceof ExecutionError) {
        log.debug({ program }, 'another worker has this program');
      } else {
        log.error({ err, program }, 'expiry run failed');
      }
    }
  }
});
