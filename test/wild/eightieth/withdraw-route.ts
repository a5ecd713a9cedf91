import { NextResponse, type NextRequest } from 'next/server';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { z } from 'zod';
import { prisma } from '../../../lib/prisma';
import { currentUser } from '../../../lib/session';

const redis = new Redis(process.env.REDIS_URL!);

const Body = z.object({
  amount: z.number().int().positive().max(1_000_000),
  iban: z.string().min(15).max(34),
});

const unlockScript = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

async function lockWallet(key: string, token: string) {
  for (let i = 0; i < 30; i++) {
    const ok = await redis.set(key, token, 'PX', 20_000, 'NX');
    if (ok === 'OK') return true;
    await new Promise((r) => setTimeout(r, 100));
  }
  return false;
}

export async function POST(req: NextRequest) {
  const user = await currentUser(req);
  if (!user) return NextResponse.json({ error: 'unauthorized' }, { status: 401 });

  const parsed = Body.safeParse(await req.json());
  if (!parsed.success) return NextResponse.json({ error: 'invalid body' }, { status: 400 });
  const { amount, iban } = parsed.data;

  const wallet = await prisma.wallet.findUnique({ where: { userId: user.id } });
  if (!wallet) return NextResponse.json({ error: 'no wallet' }, { status: 404 });
  if (wallet.frozen) return NextResponse.json({ error: 'wallet is frozen' }, { status: 403 });

  const key = `wallet:${wallet.id}:lock`;
  const token = randomUUID();
  if (!(await lockWallet(key, token))) {
    return NextResponse.json({ error: 'try again' }, { status: 429 });
  }

  try {
    if (wallet.balance < amount) {
      return NextResponse.json({ error: 'not enough money' }, { status: 422 });
    }
    const [, withdrawal] = await prisma.$transaction([
      prisma.wallet.update({
        where: { id: wallet.id },
        data: { balance: wallet.balance - amount },
      }),
      prisma.withdrawal.create({
        data: { walletId: wallet.id, amount, iban, status: 'queued' },
      }),
    ]);
    return NextResponse.json({ id: withdrawal.id, balance: wallet.balance - amount });
  } finally {
    await redis.eval(unlockScript, 1, key, token);
  }
}
