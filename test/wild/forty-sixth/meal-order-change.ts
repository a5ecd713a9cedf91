// app/api/schools/[school]/meals/[date]/route.ts
import { NextResponse, type NextRequest } from 'next/server';
import { Redis } from '@upstash/redis';
import { and, eq, isNull, lt } from 'drizzle-orm';
import { nanoid } from 'nanoid';
import { z } from 'zod';
import { db } from '@/db';
import { mealOrders } from '@/db/schema';

const redis = Redis.fromEnv();
const LOCK_MS = 12_000;

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const Change = z.object({
  classId: z.string(),
  vegetarian: z.number().int().min(0).max(40),
  regular: z.number().int().min(0).max(40),
});

type Ctx = { params: Promise<{ school: string; date: string }> };

export async function PUT(req: NextRequest, ctx: Ctx) {
  const { school, date } = await ctx.params;
  const parsed = Change.safeParse(await req.json());
  if (!parsed.success) return NextResponse.json(parsed.error.flatten(), { status: 400 });
  const change = parsed.data;

  const tag = `{meals:${school}:${date}}`;
  const token = nanoid();
  // The counter lives in a database without eviction and never expires.
  const fence = (await redis.eval(
    ACQUIRE,
    [`${tag}:lock`, `${tag}:fence`],
    [token, String(LOCK_MS)],
  )) as number;
  if (!fence) {
    return NextResponse.json({ error: 'another change is being saved' }, { status: 423 });
  }

  try {
    // Take the row over: from here on holders with an older number cannot write.
    const [order] = await db
      .update(mealOrders)
      .set({ fence })
      .where(and(eq(mealOrders.school, school), eq(mealOrders.date, date), lt(mealOrders.fence, fence)))
      .returning();
    if (!order) return NextResponse.json({ error: 'no such order' }, { status: 409 });
    if (order.sentToKitchenAt) {
      return NextResponse.json({ error: 'the kitchen has started' }, { status: 410 });
    }

    const classes = {
      ...order.classes,
      [change.classId]: { vegetarian: change.vegetarian, regular: change.regular },
    };
    const total = Object.values(classes).reduce((n, c) => n + c.vegetarian + c.regular, 0);
    if (total > order.kitchenCapacity) {
      return NextResponse.json({ error: 'kitchen is full', total }, { status: 409 });
    }

    const saved = await db
      .update(mealOrders)
      .set({ classes, total, updatedAt: new Date() })
      .where(
        and(eq(mealOrders.id, order.id), eq(mealOrders.fence, fence), isNull(mealOrders.sentToKitchenAt)),
      )
      .returning({ id: mealOrders.id });
    if (saved.length === 0) {
      return NextResponse.json({ error: 'overtaken by a later change' }, { status: 409 });
    }
    return NextResponse.json({ total });
  } finally {
    await redis.eval(RELEASE, [`${tag}:lock`], [token]).catch((err) => {
      console.warn('meal lock not released, expires by itself', err);
    });
  }
}
