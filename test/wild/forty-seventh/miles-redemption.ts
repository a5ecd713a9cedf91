import type { FastifyInstance } from 'fastify';
import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import axios from 'axios';
import { z } from 'zod';
import { db } from '../db'; // knex

const env = z
  .object({
    REDIS_URL: z.string().url(),
    PARTNER_URL: z.string().url(),
    QUOTE_TTL: z.coerce.number().int().default(900),
    LOCK_TTL: z.coerce.number().int().default(45),
  })
  .parse(process.env);

const redis = new Redis(env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 5, retryDelay: 300, retryJitter: 100 });
redlock.on('error', () => {});

const Redeem = z.object({
  memberId: z.string().uuid(),
  rewardCode: z.string().min(3),
  quoteId: z.string().uuid(),
});

type Quote = { rewardCode: string; miles: number };

async function reserveAtPartner(rewardCode: string, memberId: string) {
  const { data } = await axios.post(
    `${env.PARTNER_URL}/reservations`,
    { rewardCode, memberId },
    { timeout: 10_000 },
  );
  return data.reservationId as string;
}

export default async function milesRoutes(app: FastifyInstance) {
  app.post('/quotes', async (req, reply) => {
    const { rewardCode } = z.object({ rewardCode: z.string() }).parse(req.body);
    const reward = await db('rewards').where({ code: rewardCode, active: true }).first();
    if (!reward) return reply.code(404).send({ error: 'unknown_reward' });
    const quoteId = crypto.randomUUID();
    const quote: Quote = { rewardCode, miles: reward.miles };
    await redis.set(`miles:quote:${quoteId}`, JSON.stringify(quote), 'EX', env.QUOTE_TTL);
    return { quoteId, miles: reward.miles, expiresIn: env.QUOTE_TTL };
  });

  app.post('/redemptions', async (req, reply) => {
    const { memberId, rewardCode, quoteId } = Redeem.parse(req.body);

    const raw = await redis.get(`miles:quote:${quoteId}`);
    const quote: Quote | null = raw ? JSON.parse(raw) : null;
    if (!quote || quote.rewardCode !== rewardCode) return reply.code(410).send({ error: 'quote_expired' });

    let lock;
    try {
      lock = await redlock.acquire([`miles:member:${memberId}`], env.LOCK_TTL);
    } catch (err) {
      if (err instanceof ExecutionError) return reply.code(409).send({ error: 'redemption_in_progress' });
      throw err;
    }

    try {
      const account = await db('miles_accounts').where({ member_id: memberId }).first();
      if (!account || account.balance < quote.miles) {
        return reply.code(422).send({ error: 'insufficient_miles' });
      }

      const reservationId = await reserveAtPartner(rewardCode, memberId);

      const balance = account.balance - quote.miles;
      await db.transaction(async (trx) => {
        await trx('miles_accounts').where({ member_id: memberId }).update({ balance });
        await trx('redemptions').insert({
          member_id: memberId,
          reward_code: rewardCode,
          miles: quote.miles,
          reservation_id: reservationId,
        });
      });
      return reply.code(201).send({ reservationId, balance });
    } finally {
      await lock.release().catch((err) => req.log.debug({ err }, 'lock release'));
    }
  });
}
