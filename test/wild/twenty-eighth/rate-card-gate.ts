import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Freight rate cards are spread over a few hundred keys. Quoting jobs read them all the
 * time and next to each other; the tariff import rewrites a card a few times a day and
 * must not do that under a running quote.
 *
 * A quoting batch gets 20 seconds, an import 15, both through the signal they are handed.
 */
const READ_BUDGET_MS = 20_000;
const WRITE_BUDGET_MS = 15_000;
const GATE_TTL_MS = 30_000;
const WAITING_TTL_MS = 2_000;

const ENTER_READ = `
if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[1], '1')
if redis.call('HLEN', KEYS[2]) == 1 then
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 1`;

// A waiting import keeps new readers out so that it gets its turn.
const ENTER_WRITE = `
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[3])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[3])
return 1`;

const LEAVE_WRITE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class GateBusyError extends Error {
  constructor(card: string, side: 'read' | 'write') {
    super(`rate card ${card}: no ${side} access in time`);
    this.name = 'GateBusyError';
  }
}

export class RateCardGate {
  constructor(
    private readonly redis: Redis,
    private readonly waitMs = 45_000,
  ) {}

  async read<T>(card: string, quote: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { writer, readers, waiting } = this.keys(card);
    const id = randomUUID();

    await this.enter(card, 'read', () => this.redis.eval(ENTER_READ, 3, writer, readers, waiting, id, GATE_TTL_MS));
    try {
      return await quote(AbortSignal.timeout(READ_BUDGET_MS));
    } finally {
      await this.quietly(card, this.redis.hdel(readers, id));
    }
  }

  async write<T>(card: string, load: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { writer, readers, waiting } = this.keys(card);
    const id = randomUUID();

    await this.enter(card, 'write', () =>
      this.redis.eval(ENTER_WRITE, 3, writer, readers, waiting, id, GATE_TTL_MS, WAITING_TTL_MS),
    );
    try {
      return await load(AbortSignal.timeout(WRITE_BUDGET_MS));
    } finally {
      await this.quietly(card, this.redis.eval(LEAVE_WRITE, 1, writer, id));
    }
  }

  private async enter(card: string, side: 'read' | 'write', attempt: () => Promise<unknown>): Promise<void> {
    const giveUpAt = performance.now() + this.waitMs;
    while ((await attempt()) !== 1) {
      if (performance.now() > giveUpAt) throw new GateBusyError(card, side);
      await sleep(40 + Math.random() * 60);
    }
  }

  private async quietly(card: string, leaving: Promise<unknown>): Promise<void> {
    try {
      await leaving;
    } catch (err) {
      console.warn(`[rates] ${card}: could not leave the gate, it expires`, (err as Error).message);
    }
  }

  private keys(card: string) {
    const base = `rates:{${card}}`;
    return { writer: `${base}:writer`, readers: `${base}:readers`, waiting: `${base}:waiting` };
  }
}

/** Used by the tariff import (cron, every six hours). */
export async function importRateCard(redis: Redis, card: string, lanes: Map<string, number>): Promise<void> {
  const gate = new RateCardGate(redis);
  await gate.write(card, async (signal) => {
    for (const [lane, pricePerKg] of lanes) {
      signal.throwIfAborted();
      await redis.set(`rates:{${card}}:lane:${lane}`, pricePerKg);
    }
  });
}
