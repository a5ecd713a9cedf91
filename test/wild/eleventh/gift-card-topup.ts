import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LOCK_TTL_S = 20;
const TIME_LIMIT_MS = 12_000;

const DELETE_IF_OWNER = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export interface GiftCards {
  read(cardNo: string, signal: AbortSignal): Promise<{ balance: number; active: boolean } | undefined>;
  /** a single PUT to the card processor, cancelled when the signal aborts */
  write(cardNo: string, balance: number, signal: AbortSignal): Promise<void>;
}

async function lockCard(cardNo: string): Promise<{ key: string; owner: string; until: number } | null> {
  const key = `giftcard:${cardNo}:lock`;
  const holder = await redis.get(key);
  if (holder) {
    return null;
  }
  const owner = `topup:${crypto.randomUUID()}`;
  const until = Date.now() + TIME_LIMIT_MS;
  const ok = await redis.set(key, owner, { ex: LOCK_TTL_S });
  if (ok !== 'OK') throw new Error(`could not lock card ${cardNo}`);
  return { key, owner, until };
}

async function unlockCard(lock: { key: string; owner: string }) {
  await redis.eval(DELETE_IF_OWNER, [lock.key], [lock.owner]);
}

/**
 * POST { cardNo, cents }
 * The processor only knows "set balance", hence read + write under a lock.
 */
export function topUpRoute(cards: GiftCards) {
  return async (req: Request): Promise<Response> => {
    const { cardNo, cents } = (await req.json()) as { cardNo: string; cents: number };
    if (!/^\d{16}$/.test(cardNo) || !(cents > 0)) return new Response('bad request', { status: 400 });

    const lock = await lockCard(cardNo);
    if (!lock) return Response.json({ error: 'card is in use' }, { status: 409 });

    try {
      const signal = AbortSignal.timeout(Math.max(0, lock.until - Date.now()));
      const card = await cards.read(cardNo, signal);
      if (!card?.active) return Response.json({ error: 'no such card' }, { status: 404 });

      if (Date.now() > lock.until) return Response.json({ error: 'timeout' }, { status: 504 });
      await cards.write(cardNo, card.balance + cents, signal);
      return Response.json({ balance: card.balance + cents });
    } finally {
      await unlockCard(lock).catch((err) => console.error('unlock', cardNo, err));
    }
  };
}
