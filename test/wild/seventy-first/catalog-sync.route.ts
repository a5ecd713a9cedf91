// app/api/shops/[shopId]/sync/route.ts
import { randomUUID } from 'node:crypto';
import { NextResponse, type NextRequest } from 'next/server';
import { Redis } from '@upstash/redis';
import { PrismaClient } from '@prisma/client';

export const runtime = 'nodejs';
export const dynamic = 'force-dynamic';
export const maxDuration = 60;

const redis = Redis.fromEnv();
const prisma = new PrismaClient();

const BUDGET_MS = 45_000;
const LOCK_MS = 120_000;

// The Upstash client resends a request whose answer got lost. Asking twice with
// the same token has to give the same answer, a plain SET NX would say no to us.
const LOCK = `
local cur = redis.call("GET", KEYS[1])
if cur == ARGV[1] then return 1 end
if cur then return 0 end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1`;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

interface RemoteProduct {
  id: string;
  title: string;
  inventory: number;
  updatedAt: string;
}

async function fetchPage(domain: string, cursor: string | null, signal: AbortSignal) {
  const url = new URL(`https://${domain}/api/v2/products`);
  url.searchParams.set('limit', '100');
  if (cursor) url.searchParams.set('cursor', cursor);
  const res = await fetch(url, {
    signal,
    headers: { authorization: `Bearer ${process.env.CATALOG_API_TOKEN}` },
  });
  if (!res.ok) throw new Error(`catalog api ${res.status}`);
  return (await res.json()) as { items: RemoteProduct[]; next: string | null };
}

async function upsert(shopId: string, p: RemoteProduct) {
  // Older data never overwrites newer data, whatever order the writes come in.
  await prisma.$executeRaw`
    INSERT INTO product (shop_id, remote_id, title, inventory, remote_updated_at)
    VALUES (${shopId}, ${p.id}, ${p.title}, ${p.inventory}, ${new Date(p.updatedAt)})
    ON CONFLICT (shop_id, remote_id) DO UPDATE
       SET title = EXCLUDED.title,
           inventory = EXCLUDED.inventory,
           remote_updated_at = EXCLUDED.remote_updated_at
     WHERE product.remote_updated_at <= EXCLUDED.remote_updated_at`;
}

export async function POST(_req: NextRequest, ctx: { params: Promise<{ shopId: string }> }) {
  const { shopId } = await ctx.params;
  const shop = await prisma.shop.findUnique({ where: { id: shopId } });
  if (!shop) return NextResponse.json({ error: 'not_found' }, { status: 404 });

  const key = `sync:${shopId}`;
  const token = randomUUID();
  const deadline = Date.now() + BUDGET_MS;
  const signal = AbortSignal.timeout(BUDGET_MS);

  const unlock = () =>
    redis.eval(UNLOCK, [key], [token]).catch((err) => {
      console.warn('catalog sync: unlock failed', { shopId, err });
    });

  let got: number;
  try {
    got = await redis.eval<[string, string], number>(LOCK, [key], [token, String(LOCK_MS)]);
  } catch (err) {
    console.error('catalog sync: no lock', { shopId, err });
    await unlock();
    return NextResponse.json({ error: 'try_again' }, { status: 503 });
  }
  if (got !== 1) {
    return NextResponse.json({ status: 'already_running' }, { status: 202 });
  }

  let count = 0;
  let cursor: string | null = null;
  try {
    do {
      const page: { items: RemoteProduct[]; next: string | null } = await fetchPage(shop.domain, cursor, signal);
      for (const item of page.items) {
        if (Date.now() > deadline) {
          return NextResponse.json({ status: 'partial', count }, { status: 206 });
        }
        await upsert(shopId, item);
        count += 1;
      }
      cursor = page.next;
    } while (cursor);
    return NextResponse.json({ status: 'done', count });
  } catch (err) {
    console.error('catalog sync failed', { shopId, count, err });
    return NextResponse.json({ status: 'failed', count }, { status: 502 });
  } finally {
    await unlock();
  }
}
