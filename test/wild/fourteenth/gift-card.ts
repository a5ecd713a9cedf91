import { Redis } from '@upstash/redis';

interface GiftCard {
  code: string;
  balanceCents: number;
  validUntil: string;
  uses: { order: string; cents: number }[];
}

export type PayResult =
  | { ok: true; paidCents: number; leftCents: number }
  | { ok: false; reason: 'unknown' | 'expired' | 'empty' | 'busy' };

const LOCK_MS = 10_000;

const SAVE_IF_HELD = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;

const RELEASE_IF_HELD = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

export class GiftCards {
  constructor(
    private readonly redis = new Redis({
      url: process.env.UPSTASH_REDIS_REST_URL!,
      token: process.env.UPSTASH_REDIS_REST_TOKEN!,
    }),
  ) {}

  async pay(code: string, orderId: string, cents: number): Promise<PayResult> {
    const cardKey = `gift:{${code}}`;
    const card = await this.redis.get<GiftCard>(cardKey);
    if (!card) return { ok: false, reason: 'unknown' };
    if (Date.parse(card.validUntil) < Date.now()) return { ok: false, reason: 'expired' };

    const earlier = card.uses.find((u) => u.order === orderId);
    if (earlier) return { ok: true, paidCents: earlier.cents, leftCents: card.balanceCents };
    if (card.balanceCents === 0) return { ok: false, reason: 'empty' };

    const lockKey = `${cardKey}:lock`;
    const token = `t-${crypto.randomUUID()}`;
    if (!(await this.lock(lockKey, token))) return { ok: false, reason: 'busy' };
    try {
      const paidCents = Math.min(cents, card.balanceCents);
      const next: GiftCard = {
        ...card,
        balanceCents: card.balanceCents - paidCents,
        uses: [...card.uses, { order: orderId, cents: paidCents }],
      };
      const saved = await this.redis.eval<[string, string], number>(
        SAVE_IF_HELD,
        [lockKey, cardKey],
        [token, JSON.stringify(next)],
      );
      if (saved !== 1) return { ok: false, reason: 'busy' };
      return { ok: true, paidCents, leftCents: next.balanceCents };
    } finally {
      await this.redis
        .eval<[string], number>(RELEASE_IF_HELD, [lockKey], [token])
        .catch((err: unknown) => console.warn('gift card lock expires by itself', err));
    }
  }

  /** Waits for up to about two seconds. */
  private async lock(key: string, token: string): Promise<boolean> {
    for (let i = 0; i < 8; i++) {
      const got = await this.redis.set(key, token, { nx: true, px: LOCK_MS });
      if (got === 'OK') return true;
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 60 * i));
    }
    return false;
  }
}
