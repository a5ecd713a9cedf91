import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Prisma, PrismaClient } from "@prisma/client";
import Fastify from "fastify";
import Redis from "ioredis";

const prisma = new PrismaClient();
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2, commandTimeout: 1000 });
const app = Fastify({ logger: true });

redis.on("error", (err) => app.log.error(err, "redis"));

redis.defineCommand("unlock", {
  numberOfKeys: 1,
  lua: `
    if redis.call("get", KEYS[1]) == ARGV[1] then
      return redis.call("del", KEYS[1])
    end
    return 0`,
});

class HttpError extends Error {
  constructor(
    readonly statusCode: number,
    message: string,
  ) {
    super(message);
  }
}

async function withLock<T>(name: string, fn: () => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + 2_000;

  while ((await redis.set(key, token, "PX", 30_000, "NX")) !== "OK") {
    if (Date.now() > giveUpAt) throw new HttpError(429, "too many people are redeeming this coupon");
    await sleep(30 + Math.random() * 50);
  }
  try {
    return await fn();
  } finally {
    await (redis as any).unlock(key, token).catch((err: Error) => app.log.warn(err, "unlock"));
  }
}

async function redeem(tx: Prisma.TransactionClient, code: string, userId: string) {
  const coupon = await tx.coupon.findUnique({ where: { code } });
  if (!coupon || coupon.expiresAt < new Date()) throw new HttpError(404, "unknown coupon");

  const used = await tx.redemption.count({ where: { couponId: coupon.id } });
  if (used >= coupon.maxRedemptions) throw new HttpError(410, "coupon is used up");

  const redemption = await tx.redemption.create({
    data: { couponId: coupon.id, userId, amount: coupon.amount },
  });
  await tx.account.update({
    where: { userId },
    data: { credit: { increment: coupon.amount } },
  });
  return redemption;
}

app.post<{ Params: { code: string }; Body: { userId: string } }>(
  "/coupons/:code/redeem",
  {
    schema: {
      body: { type: "object", required: ["userId"], properties: { userId: { type: "string" } } },
    },
  },
  async (req, reply) => {
    const { code } = req.params;
    const { userId } = req.body;

    // count + insert have to be serialized per coupon
    const redemption = await prisma.$transaction(
      (tx) => withLock(`coupon:${code}`, () => redeem(tx, code, userId)),
      { maxWait: 2_000, timeout: 10_000 },
    );

    reply.code(201);
    return { id: redemption.id, amount: redemption.amount };
  },
);

app.setErrorHandler((err, req, reply) => {
  const status = err.statusCode ?? 500;
  if (status >= 500) req.log.error(err);
  reply.code(status).send({ error: status >= 500 ? "internal error" : err.message });
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: "0.0.0.0" });
