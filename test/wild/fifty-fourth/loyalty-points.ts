import { Hono } from 'hono';
import { Redis } from '@upstash/redis';
import { PrismaClient } from '@prisma/client';
import { nanoid } from 'nanoid';
import { z } from 'zod';

const redis = Redis.fromEnv();
const prisma = new PrismaClient();

const LOCK_TTL_MS = 15_000;
const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function acquire(key: string, patienceMs = 3_000): Promise<string | null> {
  const token = nanoid();
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
    if (reply === 'OK') return token;
    if (Date.now() >= deadline) return null;
    await new Promise((r) => setTimeout(r, 80 + Math.random() * 120));
  }
}

async function release(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    console.warn('wallet lock will expire by itself', key, err);
  }
}

const Redeem = z.object({
  rewardId: z.string().uuid(),
  store: z.string().min(1),
});

export const loyalty = new Hono();

loyalty.post('/members/:card/rewards', async (c) => {
  const parsed = Redeem.safeParse(await c.req.json());
  if (!parsed.success) return c.json({ error: parsed.error.issues }, 400);
  const { rewardId, store } = parsed.data;
  const card = c.req.param('card');

  const [member, reward] = await Promise.all([
    prisma.member.findUnique({ where: { card } }),
    prisma.reward.findUnique({ where: { id: rewardId } }),
  ]);
  if (!member || !reward) return c.json({ error: 'unknown card or reward' }, 404);
  if (member.points < reward.price) {
    return c.json({ error: 'not enough points', points: member.points }, 409);
  }

  // tills of a family share one card, see LOY-212
  const key = `loyalty:wallet:${member.id}`;
  const token = await acquire(key);
  if (!token) return c.json({ error: 'card is in use at another till' }, 423);

  try {
    const points = member.points - reward.price;
    await prisma.$transaction(
      async (tx) => {
        await tx.member.update({ where: { id: member.id }, data: { points } });
        await tx.redemption.create({
          data: { memberId: member.id, rewardId: reward.id, price: reward.price, store },
        });
      },
      { maxWait: 2_000, timeout: 5_000 },
    );
    return c.json({ reward: reward.name, points }, 201);
  } finally {
    await release(key, token);
  }
});

loyalty.get('/members/:card', async (c) => {
  const member = await prisma.member.findUnique({ where: { card: c.req.param('card') } });
  return member ? c.json({ points: member.points, tier: member.tier }) : c.json({ error: 'unknown card' }, 404);
});
