import Redis from 'ioredis';
import Redlock, { ExecutionError, type RedlockAbortSignal } from 'redlock5';
import { Pool } from 'pg';

/**
 * Card reissue: block the old card, order the new one, record it. Call centre, app and fraud
 * engine can all ask for it within the same second. Five independent Redis masters.
 *
 * Worst case inside the lock: 2 database calls (2s + 3s each) and 2 processor calls (4s each) = 18s.
 */
const nodes = (process.env.LOCK_NODES ?? '').split(',').map((url) => new Redis(url, { commandTimeout: 500, maxRetriesPerRequest: 0 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 8_000,
});

redlock.on('error', (err) => {
  if (err.name !== 'ResourceLockedError') console.error('lock node', err);
});

const pool = new Pool({
  connectionString: process.env.CARDS_DSN,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
  query_timeout: 3_000,
});

export type ReissueResult = { status: 'reissued' | 'already-reissued'; newCardId: string } | { status: 'busy' };

function stillOurs(signal: RedlockAbortSignal): void {
  if (signal.aborted) throw signal.error ?? new Error('card lock lost');
}

async function processor<T>(path: string, idempotencyKey: string, body: unknown): Promise<T> {
  const res = await fetch(`${process.env.PROCESSOR_URL}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(4_000),
  });
  if (!res.ok) throw new Error(`processor ${path}: ${res.status}`);
  return (await res.json()) as T;
}

export async function reissueCard(cardId: string, reason: string): Promise<ReissueResult> {
  try {
    return await redlock.using([`card-reissue:${cardId}`], 30_000, async (signal) => {
      const previous = await pool.query<{ new_card_id: string }>('SELECT new_card_id FROM reissue WHERE card_id = $1', [cardId]);
      if (previous.rows[0]) return { status: 'already-reissued' as const, newCardId: previous.rows[0].new_card_id };

      stillOurs(signal);
      await processor('/cards/block', `block-${cardId}`, { cardId, reason });

      stillOurs(signal);
      const { newCardId } = await processor<{ newCardId: string }>('/cards/order', `order-${cardId}`, { replaces: cardId });

      stillOurs(signal);
      await pool.query('INSERT INTO reissue (card_id, new_card_id, reason) VALUES ($1, $2, $3)', [cardId, newCardId, reason]);
      return { status: 'reissued' as const, newCardId };
    });
  } catch (err) {
    if (err instanceof ExecutionError) return { status: 'busy' };
    throw err;
  }
}
