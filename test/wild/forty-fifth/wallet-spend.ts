import 'dotenv/config';
import express, { NextFunction, Request, Response } from 'express';
import { PrismaClient } from '@prisma/client';
import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import pino from 'pino';
import { z } from 'zod';

const log = pino({ name: 'wallets' });
// DATABASE_URL carries statement_timeout=5s and pool_timeout=5
const prisma = new PrismaClient();
const redis = new Redis(process.env.REDIS_URL!);

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 25,
  retryDelay: 120,
  retryJitter: 60,
});
redlock.on('error', (err) => log.debug({ err: String(err) }, 'redlock'));

const SpendBody = z.object({
  amountCents: z.number().int().positive(),
  reference: z.string().min(1).max(64),
});

class HttpError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const app = express();
app.use(express.json());

/** Spends from a wallet. A wallet never goes below zero and no spending gets lost. */
app.post('/wallets/:id/spend', async (req: Request, res: Response, next: NextFunction) => {
  try {
    const { amountCents, reference } = SpendBody.parse(req.body);

    const wallet = await prisma.wallet.findUnique({
      where: { id: req.params.id },
      include: { owner: { select: { id: true, frozen: true } } },
    });
    if (!wallet) throw new HttpError(404, 'unknown wallet');
    if (wallet.owner.frozen) throw new HttpError(403, 'owner is frozen');

    const lock = await redlock.acquire([`locks:wallet:${wallet.id}`], 45_000);
    let remaining: number;
    try {
      const feeCents = wallet.plan === 'BASIC' ? Math.ceil(amountCents * 0.005) : 0;
      remaining = wallet.balanceCents - amountCents - feeCents;
      if (remaining < 0) throw new HttpError(402, 'insufficient funds');

      await prisma.$transaction([
        prisma.wallet.update({ where: { id: wallet.id }, data: { balanceCents: remaining } }),
        prisma.walletEntry.create({
          data: { walletId: wallet.id, amountCents: -amountCents, feeCents, reference, balanceAfter: remaining },
        }),
      ]);
    } finally {
      await lock.release().catch((err: unknown) => log.warn({ err: String(err) }, 'release failed'));
    }

    res.status(201).json({ walletId: wallet.id, balanceCents: remaining });
  } catch (err) {
    next(err);
  }
});

app.use((err: unknown, _req: Request, res: Response, _next: NextFunction) => {
  if (err instanceof HttpError) return res.status(err.status).json({ error: err.message });
  if (err instanceof z.ZodError) return res.status(400).json({ error: err.issues });
  if (err instanceof ExecutionError) return res.status(423).json({ error: 'wallet is busy' });
  log.error({ err }, 'unhandled');
  return res.status(500).json({ error: 'internal error' });
});

app.listen(Number(process.env.PORT ?? 3000), () => log.info('wallet service up'));
