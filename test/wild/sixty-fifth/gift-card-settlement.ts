import { Redis } from '@upstash/redis';
import { ulid } from 'ulid';
import pRetry from 'p-retry';
import type { SqlClient } from './sql';
import type { PartnerApi } from './partner';
import { log } from './log';

const LEASE_MS = 30_000;

const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export interface Lease {
  cardId: string;
  token: string;
  fence: number;
}

export class StaleLease extends Error {
  constructor(lease: Lease, seen: number) {
    super(`gift card ${lease.cardId}: fence ${lease.fence} is older than ${seen}`);
    this.name = 'StaleLease';
  }
}

export function giftCardLeases(redis: Redis = Redis.fromEnv()) {
  const lockKey = (id: string) => `giftcard:{${id}}:lease`;
  const fenceKey = (id: string) => `giftcard:{${id}}:fence`;

  return {
    async take(cardId: string): Promise<Lease | null> {
      const token = ulid();
      const fence = await redis.eval<[string, string], number>(
        TAKE,
        [lockKey(cardId), fenceKey(cardId)],
        [token, String(LEASE_MS)],
      );
      return fence > 0 ? { cardId, token, fence } : null;
    },

    async giveBack(lease: Lease): Promise<void> {
      await redis
        .eval<[string], number>(GIVE_BACK, [lockKey(lease.cardId)], [lease.token])
        .catch((err) => log.warn('gift card lease left to expire', { cardId: lease.cardId, err }));
    },
  };
}

interface Deps {
  leases: ReturnType<typeof giftCardLeases>;
  sql: SqlClient;
  partner: PartnerApi;
}

/**
 * Brings a card's balance in line with the partner's ledger. The partner can
 * be slow, which the fence number in the card's row takes care of.
 */
export async function settleCard({ leases, sql, partner }: Deps, cardId: string): Promise<'settled' | 'busy'> {
  const lease = await leases.take(cardId);
  if (!lease) return 'busy';

  try {
    const [card] = await sql.query('SELECT partner_ref, balance_cents, fence FROM gift_cards WHERE id = $1', [cardId]);
    if (!card) throw new Error(`no gift card ${cardId}`);
    if (card.fence > lease.fence) throw new StaleLease(lease, card.fence);

    const ledger = await pRetry(() => partner.ledger(card.partner_ref, { timeoutMs: 10_000 }), {
      retries: 3,
      minTimeout: 500,
      onFailedAttempt: (err) => log.info('partner ledger retry', { cardId, attempt: err.attemptNumber }),
    });

    const balance = ledger.entries.reduce((sum, e) => sum + (e.kind === 'credit' ? e.cents : -e.cents), 0);
    if (balance < 0) throw new Error(`gift card ${cardId}: negative ledger`);

    await sql.query(
      `UPDATE gift_cards
          SET balance_cents = $2, ledger_position = $3, fence = $4, settled_at = now()
        WHERE id = $1`,
      [cardId, balance, ledger.position, lease.fence],
    );
    log.info('gift card settled', { cardId, from: card.balance_cents, to: balance });
    return 'settled';
  } finally {
    await leases.giveBack(lease);
  }
}
