import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import axios from 'axios';
import Redlock, { ExecutionError, ResourceLockedError, type RedlockAbortSignal } from 'redlock5';
import { logger } from './logger';

interface OutboxRow {
  id: string;
  aggregate_id: string;
  type: string;
  payload: unknown;
}

const BATCH = 50;
const LOCK_MS = 20_000;

/**
 * Ships rows of the `outbox` table to the event gateway.
 *
 * Delivery is at-least-once. Every event goes out with its row id as `ce-id` and
 * the gateway drops ids it has seen in the last 7 days, so a repeated post is
 * harmless; the lock is there so that ten pods do not all post the same batch.
 */
export class OutboxDispatcher {
  private readonly redlock: Redlock;

  constructor(
    redis: Redis,
    private readonly pool: Pool,
    private readonly gatewayUrl: string,
  ) {
    this.redlock = new Redlock([redis], { retryCount: 0, driftFactor: 0.01 });
    this.redlock.on('error', (err) => {
      if (err instanceof ResourceLockedError) return;
      logger.warn({ err }, 'redlock');
    });
  }

  /** Returns the number of events sent; 0 as well when another pod has the shard. */
  async dispatchShard(shard: number): Promise<number> {
    let entered = false;
    let sent = 0;
    try {
      await this.redlock.using(
        [`outbox:shard:${shard}`],
        LOCK_MS,
        { automaticExtensionThreshold: 8_000 },
        async (signal) => {
          entered = true;
          for (;;) {
            const batch = await this.nextBatch(shard);
            for (const row of batch) {
              this.assertHeld(signal, shard);
              await this.send(row);
              await this.markSent(row.id);
              sent += 1;
            }
            if (batch.length < BATCH) return;
          }
        },
      );
    } catch (err) {
      if (!entered && (await isContention(err))) return 0;
      logger.error({ err, shard, sent }, 'outbox dispatch stopped');
      throw err;
    }
    return sent;
  }

  private assertHeld(signal: RedlockAbortSignal, shard: number) {
    if (signal.aborted) {
      throw signal.error ?? new Error(`lost outbox shard ${shard}`);
    }
  }

  private async nextBatch(shard: number): Promise<OutboxRow[]> {
    const { rows } = await this.pool.query<OutboxRow>(
      `SELECT id, aggregate_id, type, payload
         FROM outbox
        WHERE shard = $1 AND sent_at IS NULL
        ORDER BY seq
        LIMIT ${BATCH}`,
      [shard],
    );
    return rows;
  }

  private async send(row: OutboxRow): Promise<void> {
    await axios.post(this.gatewayUrl, row.payload, {
      timeout: 5_000,
      headers: {
        'ce-id': row.id,
        'ce-type': row.type,
        'ce-subject': row.aggregate_id,
        'ce-specversion': '1.0',
        'ce-source': '/shop/orders',
      },
    });
  }

  private async markSent(id: string): Promise<void> {
    await this.pool.query(
      `UPDATE outbox SET sent_at = now() WHERE id = $1 AND sent_at IS NULL`,
      [id],
    );
  }
}

async function isContention(err: unknown): Promise<boolean> {
  if (!(err instanceof ExecutionError)) return false;
  const attempts = await Promise.all(err.attempts);
  return attempts.every((a) =>
    [...a.votesAgainst.values()].every((e) => e instanceof ResourceLockedError),
  );
}
