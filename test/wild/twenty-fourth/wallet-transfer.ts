import { randomBytes } from 'crypto';
import Redis from 'ioredis';

interface Req { params: Record<string, string>; body: { to?: string; amount?: number } }
interface Res { status(code: number): Res; json(body: unknown): void }
type Next = (err?: unknown) => void;

const LOCK_TTL = 10_000;
const RETRIES = 25;

const unlockScript = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

class WalletBusyError extends Error {}
class InsufficientFunds extends Error {}

async function lockWallet(redis: Redis, walletId: string): Promise<() => Promise<void>> {
  const key = `wallet:${walletId}:lock`;
  for (let i = 0; i < RETRIES; i++) {
    const token = randomBytes(18).toString('base64url');
    const ok = await redis.set(key, token, 'PX', LOCK_TTL, 'NX');
    if (ok === 'OK') {
      return async () => {
        try {
          await redis.eval(unlockScript, 1, key, token);
        } catch (e) {
          console.warn('wallet unlock failed, waiting for ttl', walletId, e);
        }
      };
    }
    await new Promise((r) => setTimeout(r, 60 + Math.random() * 60));
  }
  throw new WalletBusyError(walletId);
}

async function balanceOf(redis: Redis, walletId: string): Promise<number> {
  const raw = await redis.get(`wallet:${walletId}:balance`);
  if (raw === null) throw new Error(`unknown wallet ${walletId}`);
  return Number.parseInt(raw, 10);
}

/**
 * A customer must not be able to spend the same money twice by sending two
 * transfers at once, so transfers out of a wallet are serialised.
 */
async function transfer(redis: Redis, from: string, to: string, amount: number) {
  const unlock = await lockWallet(redis, from);
  try {
    const [source, target] = await Promise.all([balanceOf(redis, from), balanceOf(redis, to)]);
    if (source < amount) throw new InsufficientFunds();

    const results = await redis
      .multi()
      .set(`wallet:${from}:balance`, source - amount)
      .set(`wallet:${to}:balance`, target + amount)
      .xadd('wallet:journal', '*', 'from', from, 'to', to, 'amount', amount)
      .exec();
    if (!results) throw new Error('transfer not executed');
    for (const [err] of results) if (err) throw err;

    return { from, to, amount, balance: source - amount };
  } finally {
    await unlock();
  }
}

export function transferRoute(redis: Redis) {
  return async function (req: Req, res: Res, next: Next) {
    const from = req.params.walletId;
    const { to, amount } = req.body;
    if (!to || to === from || !Number.isSafeInteger(amount) || amount! <= 0) {
      return res.status(400).json({ error: 'invalid transfer' });
    }
    try {
      res.status(201).json(await transfer(redis, from, to, amount!));
    } catch (err) {
      if (err instanceof WalletBusyError) return res.status(409).json({ error: 'wallet busy' });
      if (err instanceof InsufficientFunds) return res.status(422).json({ error: 'insufficient funds' });
      next(err);
    }
  };
}
