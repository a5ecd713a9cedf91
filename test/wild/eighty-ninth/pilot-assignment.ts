/**
 * Assignment of harbour pilots to incoming ships.
 *
 * Dispatchers on several shifts assign pilots from the same roster. While one of them
 * works on a pilot, no other one may: a pilot boards one ship at a time, and the roster
 * itself has no constraint that would notice.
 */
import Client from 'ioredis';
import { Pool } from 'pg';
import Redlock, { ExecutionError, ResourceLockedError, type Lock } from 'redlock5';

const LOCK_MS = 30_000;

const nodes = ['lock-a', 'lock-b', 'lock-c'].map((host) => {
  const client = new Client({ host, commandTimeout: 800, maxRetriesPerRequest: 1 });
  client.on('error', (err) => console.warn(`${host}: ${err.message}`));
  return client;
});

const redlock = new Redlock(nodes, { retryCount: 5, retryDelay: 200, retryJitter: 100 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn('redlock:', err.message);
});

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
});

/** Another dispatcher is assigning this pilot. */
export class PilotBusyError extends Error {
  override name = 'PilotBusyError';
}

/** The pilot has a ship at that time already. */
export class PilotTakenError extends Error {
  override name = 'PilotTakenError';
}

export interface Assignment {
  pilotId: string;
  shipImo: string;
  boardsAt: Date;
  hours: number;
}

/**
 * Locks a pilot for this dispatcher.
 *
 * Ships do not wait for our servers to come back, so an outage of the lock nodes is
 * logged and the dispatcher goes on.
 *
 * @throws {PilotBusyError} when another dispatcher has the pilot
 */
async function lockPilot(pilotId: string): Promise<Lock | null> {
  try {
    return await redlock.acquire([`locks:pilot:${pilotId}`], LOCK_MS);
  } catch (err) {
    if (err instanceof ResourceLockedError) {
      throw new PilotBusyError(`pilot ${pilotId} is being assigned`, { cause: err });
    }
    if (err instanceof ExecutionError) {
      console.error(`lock nodes unavailable, pilot ${pilotId}`, err.message);
      return null;
    }
    throw err;
  }
}

async function unlockPilot(lock: Lock | null): Promise<void> {
  if (!lock) return;
  try {
    await lock.release();
  } catch (err) {
    console.warn('pilot lock left to expire', err);
  }
}

/** Looks for a ship the pilot is on board of during the time in question. */
async function conflicting({ pilotId, boardsAt, hours }: Assignment): Promise<string | null> {
  const { rows } = await pool.query<{ ship_imo: string }>(
    `SELECT ship_imo FROM assignments
      WHERE pilot_id = $1
        AND boards_at < $2::timestamptz + make_interval(hours => $3::int)
        AND boards_at + make_interval(hours => hours) > $2::timestamptz
      LIMIT 1`,
    [pilotId, boardsAt, hours],
  );
  return rows[0]?.ship_imo ?? null;
}

/**
 * Assigns a pilot to a ship.
 *
 * @returns the id of the assignment
 * @throws {PilotBusyError}
 * @throws {PilotTakenError}
 */
export async function assignPilot(wanted: Assignment): Promise<string> {
  const lock = await lockPilot(wanted.pilotId);
  try {
    const other = await conflicting(wanted);
    if (other) throw new PilotTakenError(`pilot ${wanted.pilotId} is on ${other}`);

    const { rows } = await pool.query<{ id: string }>(
      `INSERT INTO assignments (pilot_id, ship_imo, boards_at, hours)
       VALUES ($1, $2, $3, $4) RETURNING id`,
      [wanted.pilotId, wanted.shipImo, wanted.boardsAt, wanted.hours],
    );
    return rows[0].id;
  } finally {
    await unlockPilot(lock);
  }
}
