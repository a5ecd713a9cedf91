// app/api/concerts/[id]/checkout/route.ts
import { NextResponse } from 'next/server';
import { PrismaClient, type Prisma } from '@prisma/client';
import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';
import { z } from 'zod';

const prisma = new PrismaClient();
const redis = Redis.fromEnv();

const LOCK_MS = 30_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

class Busy extends Error {}
class SoldOut extends Error {}

async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = nanoid();
  let taken = false;
  for (let i = 0; i < 15 && !taken; i++) {
    taken = (await redis.set(key, token, { nx: true, px: LOCK_MS })) === 'OK';
    if (!taken) await new Promise((r) => setTimeout(r, 100 + Math.random() * 100));
  }
  if (!taken) throw new Busy(key);
  try {
    return await fn();
  } finally {
    await redis.eval(UNLOCK, [key], [token]).catch((err) => console.warn('unlock', key, err));
  }
}

const Body = z.object({
  block: z.string().min(1),
  seats: z.number().int().min(1).max(8),
  customerId: z.string(),
});

async function sell(tx: Prisma.TransactionClient, concertId: string, order: z.infer<typeof Body>) {
  const block = await tx.block.findUniqueOrThrow({
    where: { concertId_name: { concertId, name: order.block } },
  });
  const sold = await tx.ticket.count({ where: { blockId: block.id, cancelledAt: null } });
  if (sold + order.seats > block.capacity) throw new SoldOut(order.block);

  const purchase = await tx.purchase.create({
    data: { concertId, customerId: order.customerId, cents: block.priceCents * order.seats },
  });
  await tx.ticket.createMany({
    data: Array.from({ length: order.seats }, () => ({ blockId: block.id, purchaseId: purchase.id })),
  });
  return purchase;
}

export async function POST(req: Request, { params }: { params: Promise<{ id: string }> }) {
  const { id } = await params;
  const parsed = Body.safeParse(await req.json());
  if (!parsed.success) return NextResponse.json(parsed.error.flatten(), { status: 422 });

  try {
    const purchase = await prisma.$transaction(
      (tx) => withLock(`concert:${id}:${parsed.data.block}`, () => sell(tx, id, parsed.data)),
      { timeout: 12_000 },
    );
    return NextResponse.json({ purchaseId: purchase.id }, { status: 201 });
  } catch (err) {
    if (err instanceof SoldOut) return NextResponse.json({ error: 'sold out' }, { status: 409 });
    if (err instanceof Busy) return NextResponse.json({ error: 'try again' }, { status: 503 });
    throw err;
  }
}
