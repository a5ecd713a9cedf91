import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface OrderPaid {
  eventId: string;
  customerId: string;
  amountCents: number;
}

export interface PointsLedger {
  hasEvent(eventId: string): Promise<boolean>;
  /** Appends an entry in one transaction; the database gives up after timeoutMs. */
  append(
    entry: { eventId: string; customerId: string; points: number },
    options: { timeoutMs: number },
  ): Promise<void>;
}

export interface CampaignApi {
  multiplier(customerId: string, signal: AbortSignal): Promise<number>;
}

interface Log {
  info(msg: string, fields?: object): void;
  warn(msg: string, fields?: object): void;
}

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

const LOCK_MS = 30_000;
const WAIT_MS = 10_000;
const API_MS = 4_000;
const APPEND_MS = 3_000;
const RESERVE_MS = 5_000;

/**
 * Books loyalty points for paid orders. The broker delivers at least once and,
 * after a rebalance, may deliver the same event to two consumers at the same
 * time. Points for an event are booked a single time: the ledger entry carries
 * the event id, and consumers of the same event take turns.
 */
export class LoyaltyConsumer {
  readonly #redis: Redis;
  readonly #ledger: PointsLedger;
  readonly #campaigns: CampaignApi;
  readonly #log: Log;

  constructor(deps: { redis: Redis; ledger: PointsLedger; campaigns: CampaignApi; log: Log }) {
    this.#redis = deps.redis;
    this.#ledger = deps.ledger;
    this.#campaigns = deps.campaigns;
    this.#log = deps.log;
  }

  /** Throwing makes the broker deliver the message again. */
  async handle(event: OrderPaid): Promise<void> {
    if (await this.#ledger.hasEvent(event.eventId)) {
      this.#log.info('already booked', { eventId: event.eventId });
      return;
    }

    const lock = await this.#lock(`loyalty:${event.eventId}`);
    try {
      const factor = await this.#campaigns.multiplier(event.customerId, AbortSignal.timeout(API_MS));
      const points = Math.floor((event.amountCents / 100) * factor);

      if (performance.now() + APPEND_MS > lock.until) throw new Error('lock about to expire');
      await this.#ledger.append(
        { eventId: event.eventId, customerId: event.customerId, points },
        { timeoutMs: APPEND_MS },
      );
      this.#log.info('booked', { eventId: event.eventId, points });
    } finally {
      await this.#unlock(lock);
    }
  }

  async #lock(key: string): Promise<{ key: string; token: string; until: number }> {
    const giveUpAt = performance.now() + WAIT_MS;
    while (performance.now() < giveUpAt) {
      const token = randomUUID();
      const askedAt = performance.now();
      if ((await this.#redis.set(key, token, 'PX', LOCK_MS, 'NX')) === 'OK') {
        return { key, token, until: askedAt + LOCK_MS - RESERVE_MS };
      }
      await sleep(100 + Math.random() * 100);
    }
    throw new Error(`${key} is still busy`);
  }

  async #unlock(lock: { key: string; token: string }): Promise<void> {
    try {
      await this.#redis.eval(UNLOCK, 1, lock.key, lock.token);
    } catch (err) {
      this.#log.warn('unlock failed, leaving it to the ttl', { err, key: lock.key });
    }
  }
}
