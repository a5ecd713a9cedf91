import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { BankGateway } from './bank';
import type { PayoutStore } from './store';
import type { Logger } from './logger';

const TTL_MS = 40_000;
const CLOCK_DRIFT_MS = Math.round(TTL_MS * 0.01) + 2;
const RETRIES = 4;
const SEND_TIMEOUT_MS = 12_000;
const STORE_TIMEOUT_MS = 3_000;

const COMPARE_AND_DELETE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export interface QuorumLockOptions {
  /** Independent Redis masters with a short commandTimeout. */
  nodes: Redis[];
  logger: Logger;
}

export interface HeldLock {
  readonly resource: string;
  readonly token: string;
  readonly validUntil: number;
}

export class QuorumLock {
  private readonly nodes: Redis[];
  private readonly logger: Logger;

  constructor({ nodes, logger }: QuorumLockOptions) {
    if (nodes.length < 3) throw new Error('a quorum lock needs at least three nodes');
    this.nodes = nodes;
    this.logger = logger;
  }

  async acquire(resource: string): Promise<HeldLock | null> {
    for (let attempt = 0; attempt < RETRIES; attempt += 1) {
      const token = randomUUID();
      const startedAt = performance.now();

      // Nodes that are reconnecting would only cost us their timeout.
      const live = this.nodes.filter((node) => node.status === 'ready');
      const quorum = Math.floor(live.length / 2) + 1;

      const replies = await Promise.allSettled(
        live.map((node) => node.set(resource, token, 'PX', TTL_MS, 'NX')),
      );
      const votes = replies.filter(
        (reply) => reply.status === 'fulfilled' && reply.value === 'OK',
      ).length;

      const validUntil = startedAt + TTL_MS - CLOCK_DRIFT_MS;
      if (votes >= quorum && performance.now() < validUntil) {
        return { resource, token, validUntil };
      }

      this.logger.debug({ resource, votes, quorum }, 'quorum not reached');
      await this.release({ resource, token, validUntil });
      await sleep(150 + Math.random() * 200);
    }
    return null;
  }

  async release({ resource, token }: HeldLock): Promise<void> {
    await Promise.allSettled(
      this.nodes.map((node) => node.eval(COMPARE_AND_DELETE, 1, resource, token)),
    );
  }
}

export interface PayoutDeps {
  lock: QuorumLock;
  bank: BankGateway;
  store: PayoutStore;
  logger: Logger;
}

/** Sends what a merchant has earned to their bank account. */
export async function payOut(
  { lock, bank, store, logger }: PayoutDeps,
  merchantId: string,
): Promise<'paid' | 'nothing-due' | 'busy'> {
  const held = await lock.acquire(`payout:${merchantId}`);
  if (held === null) return 'busy';

  try {
    const due = await store.amountDue(merchantId, { timeoutMs: STORE_TIMEOUT_MS });
    if (due.cents <= 0) return 'nothing-due';

    const needed = SEND_TIMEOUT_MS + 2 * STORE_TIMEOUT_MS;
    if (held.validUntil - performance.now() < needed) {
      logger.warn({ merchantId }, 'too little lock time left for a payout');
      return 'busy';
    }

    // Payouts which have begun and did not finish are looked into by the reconciler.
    const payout = await store.beginPayout(merchantId, due, { timeoutMs: STORE_TIMEOUT_MS });
    const transfer = await bank.send({
      reference: payout.id,
      merchantId,
      cents: due.cents,
      signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
    });
    await store.finishPayout(payout.id, transfer.id, { timeoutMs: STORE_TIMEOUT_MS });
    return 'paid';
  } finally {
    await lock.release(held);
  }
}
