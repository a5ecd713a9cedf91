import { randomUUID } from 'node:crypto';
import { Router, type NextFunction, type Request, type Response } from 'express';
import Redis from 'ioredis';
import { z } from 'zod';
import { prisma } from '../lib/prisma';

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_500 });

redis.defineCommand('releaseLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
});

const LOCK_TTL_MS = 20_000;

const Redeem = z.object({ rewardId: z.string().uuid() });

class OutOfStock extends Error {}

export const rewards = Router();

rewards.post('/members/:memberId/redemptions', async (req: Request, res: Response, next: NextFunction) => {
  const body = Redeem.safeParse(req.body);
  if (!body.success) return res.status(400).json({ error: 'invalid_body' });

  const member = await prisma.member.findUnique({ where: { id: req.params.memberId } }).catch(next);
  if (member === undefined) return;
  if (!member || member.closedAt) return res.status(404).json({ error: 'no_such_member' });

  const key = `member:${member.id}:points`;
  const token = randomUUID();

  let locked = false;
  try {
    locked = (await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK';
  } catch (err) {
    return next(err);
  }
  if (!locked) return res.status(409).json({ error: 'redemption_in_progress' });

  try {
    const result = await prisma.$transaction(
      async (tx) => {
        const reward = await tx.reward.findUnique({ where: { id: body.data.rewardId } });
        if (!reward || !reward.active) return { status: 404, body: { error: 'no_such_reward' } };

        // Gold members pay ten percent less, rounded in their favour.
        const cost = member.tier === 'GOLD' ? Math.floor(reward.points * 0.9) : reward.points;
        if (member.points < cost) {
          return { status: 422, body: { error: 'not_enough_points', missing: cost - member.points } };
        }

        const stock = await tx.reward.updateMany({
          where: { id: reward.id, stock: { gt: 0 } },
          data: { stock: { decrement: 1 } },
        });
        if (stock.count === 0) throw new OutOfStock(reward.id);

        const points = member.points - cost;
        await tx.member.update({ where: { id: member.id }, data: { points } });
        const redemption = await tx.redemption.create({
          data: { memberId: member.id, rewardId: reward.id, cost },
        });
        return { status: 201, body: { id: redemption.id, pointsLeft: points } };
      },
      { maxWait: 2_000, timeout: 8_000 },
    );
    return res.status(result.status).json(result.body);
  } catch (err) {
    if (err instanceof OutOfStock) return res.status(410).json({ error: 'out_of_stock' });
    return next(err);
  } finally {
    await (redis as any).releaseLock(key, token).catch((err: Error) => {
      console.warn('releaseLock', key, err.message);
    });
  }
});
