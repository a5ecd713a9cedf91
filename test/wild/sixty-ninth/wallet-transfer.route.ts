import { randomUUID } from 'node:crypto';
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { z } from 'zod';

export const runtime = 'nodejs';
export const maxDuration = 10;

const LOCK_MS = 30_000;

export interface Wallet {
  id: string;
  points: number;
  version: number;
  lastTransfer?: string;
}

const Transfer = z
  .object({
    transferId: z.string().uuid(),
    from: z.string().min(1),
    to: z.string().min(1),
    points: z.number().int().positive().max(100_000),
  })
  .refine((t) => t.from !== t.to, 'cannot transfer to the same wallet');

type Transfer = z.infer<typeof Transfer>;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export class WalletError extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

export async function withTransferLock<T>(redis: Redis, from: string, to: string, fn: () => Promise<T>): Promise<T> {
  const key = `wallet:lock:${from}:${to}`;
  const token = randomUUID();
  const deadline = Date.now() + 3_000;
  try {
    for (;;) {
      const ok = await redis.set(key, token, { nx: true, px: LOCK_MS });
      if (ok === 'OK') break;
      if ((await redis.get<string>(key)) === token) break;
      if (Date.now() > deadline) throw new WalletError('wallet is busy, try again', 409);
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 100));
    }
    return await fn();
  } finally {
    await redis.eval(UNLOCK, [key], [token]).catch((err) => console.warn('wallet unlock', key, err));
  }
}

async function loadWallet(redis: Redis, id: string): Promise<Wallet> {
  const wallet = await redis.get<Wallet>(`wallet:${id}`);
  if (!wallet) throw new WalletError(`no wallet ${id}`, 404);
  return wallet;
}

export async function transfer(redis: Redis, t: Transfer): Promise<{ from: Wallet; to: Wallet }> {
  return withTransferLock(redis, t.from, t.to, async () => {
    const [from, to, seen] = await Promise.all([
      loadWallet(redis, t.from),
      loadWallet(redis, t.to),
      redis.exists(`wallet:transfer:${t.transferId}`),
    ]);
    if (seen) return { from, to };
    if (from.points < t.points) throw new WalletError('not enough points', 422);

    from.points -= t.points;
    to.points += t.points;
    for (const w of [from, to]) {
      w.version += 1;
      w.lastTransfer = t.transferId;
    }
    // one transaction: both wallets and the mark of the transfer, or nothing
    await redis
      .multi()
      .set(`wallet:${from.id}`, from)
      .set(`wallet:${to.id}`, to)
      .set(`wallet:transfer:${t.transferId}`, 1, { ex: 30 * 24 * 3600 })
      .exec();
    return { from, to };
  });
}

export async function POST(req: Request) {
  const parsed = Transfer.safeParse(await req.json().catch(() => undefined));
  if (!parsed.success) {
    return NextResponse.json({ error: parsed.error.flatten() }, { status: 400 });
  }
  try {
    const result = await transfer(Redis.fromEnv(), parsed.data);
    return NextResponse.json({ balance: result.from.points });
  } catch (err) {
    if (err instanceof WalletError) {
      return NextResponse.json({ error: err.message }, { status: err.status });
    }
    console.error('transfer failed', err);
    return NextResponse.json({ error: 'transfer failed' }, { status: 500 });
  }
}
