import { Router } from 'express';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';
import { z } from 'zod';
import { prisma } from '../db';
import { redis } from '../redis';
import { requireUser } from '../middleware/auth';
import { logger } from '../config/logger';

const LOCK_MS = 15_000;

const redlock = new Redlock([redis], {
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 5_000,
});

redlock.on('error', (err: unknown) => {
  if (err instanceof ResourceLockedError) return;
  logger.warn({ err }, 'redlock client error');
});

const bodySchema = z.object({
  orderId: z.string().uuid(),
  amountCents: z.number().int().positive().max(1_000_000),
});

class InsufficientBalanceError extends Error {}

export const giftCardRouter = Router();

giftCardRouter.post('/gift-cards/:code/redeem', requireUser, async (req, res, next) => {
  const body = bodySchema.safeParse(req.body);
  if (!body.success) return res.status(400).json({ error: 'invalid_body' });

  const { orderId, amountCents } = body.data;
  try {
    const card = await prisma.giftCard.findUnique({ where: { code: req.params.code } });
    if (!card || card.disabledAt) return res.status(404).json({ error: 'not_found' });

    const remaining = await redlock.using([`lock:gift-card:${card.id}`], LOCK_MS, async (signal) => {
      if (card.balanceCents < amountCents) throw new InsufficientBalanceError();

      const balanceCents = card.balanceCents - amountCents;
      if (signal.aborted) throw signal.error ?? new Error('lock lost');
      await prisma.$transaction(
        [
          prisma.giftCardRedemption.create({
            data: { giftCardId: card.id, orderId, amountCents, userId: req.user!.id },
          }),
          prisma.giftCard.update({ where: { id: card.id }, data: { balanceCents } }),
        ],
      );
      return balanceCents;
    });

    return res.status(201).json({ orderId, amountCents, remainingCents: remaining });
  } catch (err) {
    if (err instanceof InsufficientBalanceError) {
      return res.status(422).json({ error: 'insufficient_balance' });
    }
    if (err instanceof ExecutionError) {
      return res.status(423).json({ error: 'card_in_use' });
    }
    return next(err);
  }
});
