import { PrismaClient } from "@prisma/client";
import Redis from "ioredis";
import Redlock, { type Lock, ResourceLockedError } from "redlock5";

const prisma = new PrismaClient();

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379", {
  maxRetriesPerRequest: 1,
  commandTimeout: 1_000,
});
redis.on("error", (err) => console.warn("redis", err.message));

const redlock = new Redlock([redis], {
  retryCount: 12,
  retryDelay: 150,
  retryJitter: 75,
});
redlock.on("error", (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn("redlock", err);
});

const LOCK_MS = 30_000;
const TX = { maxWait: 2_000, timeout: 10_000 };

export class InsufficientFundsError extends Error {
  constructor(walletId: string) {
    super(`wallet ${walletId} has insufficient funds`);
  }
}

async function release(lock: Lock): Promise<void> {
  try {
    await lock.release();
  } catch (err) {
    console.warn("release", lock.resources, err);
  }
}

export interface Debit {
  walletId: string;
  cents: number;
  reference: string;
}

export function debitWallet({ walletId, cents, reference }: Debit): Promise<number> {
  if (!Number.isSafeInteger(cents) || cents <= 0) {
    throw new RangeError(`bad amount ${cents}`);
  }

  return prisma.$transaction(async (tx) => {
    const lock = await redlock.acquire([`wallet:${walletId}`], LOCK_MS);
    try {
      const done = await tx.walletEntry.findUnique({ where: { reference } });
      if (done) return done.balanceAfter;

      const wallet = await tx.wallet.findUniqueOrThrow({ where: { id: walletId } });
      if (wallet.balance < cents) throw new InsufficientFundsError(walletId);

      const balance = wallet.balance - cents;
      await tx.wallet.update({
        where: { id: walletId },
        data: { balance },
      });
      await tx.walletEntry.create({
        data: { walletId, reference, amount: -cents, balanceAfter: balance },
      });
      return balance;
    } finally {
      await release(lock);
    }
  }, TX);
}
