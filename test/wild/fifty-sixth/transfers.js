'use strict';

const Koa = require('koa');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const winston = require('winston');
const { z } = require('zod');
const { Prisma, PrismaClient } = require('@prisma/client');

const prisma = new PrismaClient();
const logger = winston.createLogger({
  level: process.env.LOG_LEVEL || 'info',
  transports: [new winston.transports.Console()],
});

const redlock = new Redlock([new Redis(process.env.REDIS_URL)], {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 150,
  retryJitter: 100,
});
redlock.on('clientError', (err) => logger.error('redlock client', { err }));

const LOCK_TTL = 20000;

const transferSchema = z
  .object({
    from: z.string().uuid(),
    to: z.string().uuid(),
    amount: z.string().regex(/^\d{1,9}(\.\d{1,2})?$/),
    reference: z.string().max(140).default(''),
  })
  .refine((t) => t.from !== t.to, 'from and to must differ');

/** Moves loyalty credit from one wallet to another. */
async function transfer({ from, to, amount, reference }) {
  const value = new Prisma.Decimal(amount);

  // a transfer and its counter-transfer are the same pair
  const resource = `locks:wallets:${[from, to].sort().join(':')}`;
  const lock = await redlock.lock(resource, LOCK_TTL);
  try {
    return await prisma.$transaction(
      async (tx) => {
        const source = await tx.wallet.findUniqueOrThrow({ where: { id: from } });
        const target = await tx.wallet.findUniqueOrThrow({ where: { id: to } });
        if (source.balance.lessThan(value)) {
          const err = new Error('insufficient credit');
          err.status = 422;
          err.expose = true;
          throw err;
        }
        await tx.wallet.update({ where: { id: from }, data: { balance: source.balance.minus(value) } });
        await tx.wallet.update({ where: { id: to }, data: { balance: target.balance.plus(value) } });
        return tx.transfer.create({ data: { fromId: from, toId: to, amount: value, reference } });
      },
      { maxWait: 2000, timeout: 6000 },
    );
  } finally {
    await lock.unlock().catch((err) => logger.warn('unlock', { resource, message: err.message }));
  }
}

const app = new Koa();

app.use(async (ctx) => {
  if (ctx.method !== 'POST' || ctx.path !== '/transfers') ctx.throw(404);

  let raw = '';
  for await (const chunk of ctx.req) raw += chunk;
  let json;
  try {
    json = JSON.parse(raw);
  } catch {
    ctx.throw(400, 'malformed JSON');
  }
  const parsed = transferSchema.safeParse(json);
  if (!parsed.success) ctx.throw(400, parsed.error.issues[0].message);

  try {
    const done = await transfer(parsed.data);
    ctx.status = 201;
    ctx.body = { id: done.id, createdAt: done.createdAt };
  } catch (err) {
    if (err instanceof Redlock.LockError) ctx.throw(503, 'wallets are busy');
    throw err;
  }
});

app.listen(process.env.PORT || 8080);
