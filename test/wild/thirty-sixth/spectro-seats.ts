import { Redis } from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import pg from 'pg';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 5_000 });
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });

// The vendor sold us three floating seats, a fourth session locks the account for an hour.
const SEATS = 3;
const SEAT_MS = 90_000;
const SOLVE_CAP_MS = 45_000;

interface Peak {
  wavelength: number;
  intensity: number;
}

export class NoSeat extends Error {}

async function solve(spectrum: string): Promise<Peak[]> {
  // the box ends its session as soon as the socket goes away
  const res = await fetch(`${process.env.SOLVER_URL}/sessions?oneshot=1`, {
    method: 'POST',
    headers: { 'content-type': 'text/csv' },
    body: spectrum,
    signal: AbortSignal.timeout(SOLVE_CAP_MS),
  });
  if (!res.ok) throw new Error(`solver answered ${res.status}`);
  return (await res.json()) as Peak[];
}

export async function analyse(sampleId: string, spectrum: string): Promise<Peak[]> {
  // one object per call, its identifier is the claim on the seat
  const seat = new Semaphore(redis, 'spectro:seats', SEATS, {
    lockTimeout: SEAT_MS,
    refreshInterval: 0,
    acquireTimeout: 180_000,
    retryInterval: 400,
  });

  try {
    await seat.acquire();
  } catch (err) {
    throw new NoSeat(`no solver seat for ${sampleId}`, { cause: err });
  }

  let peaks: Peak[];
  try {
    peaks = await solve(spectrum);
  } finally {
    await seat.release().catch((err: Error) => {
      console.warn('seat comes back by itself: %s', err.message);
    });
  }

  await db.query(
    `INSERT INTO peaks (sample_id, peaks) VALUES ($1, $2)
     ON CONFLICT (sample_id) DO UPDATE SET peaks = EXCLUDED.peaks`,
    [sampleId, JSON.stringify(peaks)],
  );
  return peaks;
}
