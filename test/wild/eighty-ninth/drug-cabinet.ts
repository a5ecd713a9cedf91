/**
 * Dispensing from the controlled-drug cabinet of the clinic.
 *
 * Vets at three terminals share one cabinet. The lock keeps two of them from working
 * on the same bottle at once; the version column of the bottle is what the booking is
 * finally decided by, so a terminal that lost the lock half-way cannot book over another.
 */
import Client from 'ioredis';
import { Pool } from 'pg';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

const LOCK_MS = 10_000;

const nodes = (process.env.LOCK_NODES ?? 'redis-a:6379,redis-b:6379,redis-c:6379')
  .split(',')
  .map((node) => {
    const [host, port] = node.split(':');
    const client = new Client({ host, port: Number(port), commandTimeout: 500 });
    client.on('error', (err) => console.warn(`lock node ${node}: ${err.message}`));
    return client;
  });

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 150,
  retryJitter: 50,
  automaticExtensionThreshold: 3_000,
});
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn('redlock:', err.message);
});

const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 3_000 });

/** The bottle could not be locked: another vet has it, or the lock nodes are down. */
export class BottleUnavailableError extends Error {
  override name = 'BottleUnavailableError';
}

/** Nothing was booked: too little left, or the bottle has changed in the meantime. */
export class DispenseRejectedError extends Error {
  override name = 'DispenseRejectedError';
}

export interface Dispense {
  bottleId: string;
  patientId: string;
  vetId: string;
  ml: number;
}

/** Asks the scale under the bottle whether the vet has really taken that much. */
async function confirmByScale(bottleId: string, ml: number): Promise<void> {
  const res = await fetch(`http://cabinet.local/bottles/${bottleId}/confirm?ml=${ml}`, {
    signal: AbortSignal.timeout(20_000),
  });
  if (!res.ok) throw new DispenseRejectedError(`the scale disagrees (${res.status})`);
}

/** Takes the amount off the bottle and writes the journal, in one statement. */
async function book(order: Dispense, version: number): Promise<number> {
  const { rows } = await pool.query<{ ml_left: number }>(
    `WITH taken AS (
       UPDATE bottles SET ml_left = ml_left - $2, version = version + 1
        WHERE id = $1 AND version = $3 AND ml_left >= $2
        RETURNING id, ml_left
     ), noted AS (
       INSERT INTO journal (bottle_id, patient_id, vet_id, ml)
       SELECT id, $4, $5, $2 FROM taken
     )
     SELECT ml_left FROM taken`,
    [order.bottleId, order.ml, version, order.patientId, order.vetId],
  );
  if (rows.length === 0) throw new DispenseRejectedError(`bottle ${order.bottleId}`);
  return rows[0].ml_left;
}

/**
 * Dispenses from a bottle.
 *
 * @returns what is left in the bottle, in millilitres
 */
export async function dispense(order: Dispense): Promise<number> {
  const booked: { done: boolean; left: number } = { done: false, left: 0 };
  let entered = false;
  try {
    await redlock.using([`locks:bottle:${order.bottleId}`], LOCK_MS, async (signal) => {
      entered = true;
      const { rows } = await pool.query<{ version: number }>(
        'SELECT version FROM bottles WHERE id = $1',
        [order.bottleId],
      );
      if (rows.length === 0) throw new DispenseRejectedError('no such bottle');

      await confirmByScale(order.bottleId, order.ml);
      if (signal.aborted) throw signal.error ?? new BottleUnavailableError('lock lost');

      booked.left = await book(order, rows[0].version);
      booked.done = true;
    });
  } catch (err) {
    if (booked.done) {
      // Only giving the lock back can have failed; it expires by itself.
      console.warn(`lock of bottle ${order.bottleId} not released`, err);
      return booked.left;
    }
    if (!entered && err instanceof ExecutionError) {
      throw new BottleUnavailableError(order.bottleId, { cause: err });
    }
    throw err;
  }
  return booked.left;
}
