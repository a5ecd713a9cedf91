// Passenger manifests of our coach tours. The manifest is one JSON column
// because the border authorities want it exactly as it was handed in.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const pool = new Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 3_000, query_timeout: 4_000 });

const LEASE_MS = 30_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class TourLease implements AsyncDisposable {
  private constructor(
    readonly key: string,
    private readonly token: string,
  ) {}

  static async acquire(tourId: string, waitMs = 10_000): Promise<TourLease> {
    const key = `tour:${tourId}:manifest`;
    const token = randomUUID();
    const until = Date.now() + waitMs;
    while ((await redis.set(key, token, 'PX', LEASE_MS, 'NX')) !== 'OK') {
      if (Date.now() > until) throw new Error(`manifest of tour ${tourId} is in use`);
      await sleep(75 + Math.random() * 75);
    }
    return new TourLease(key, token);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await redis.eval(RELEASE, 1, this.key, this.token);
    } catch (err) {
      console.warn(`lease ${this.key} not released`, err);
    }
  }
}

interface Passenger {
  passportNo: string;
  name: string;
  seat?: number;
}

interface Manifest {
  passengers: Passenger[];
}

async function load(tourId: string): Promise<Manifest> {
  const { rows } = await pool.query('SELECT manifest FROM tours WHERE id = $1', [tourId]);
  if (rows.length === 0) throw new Error(`no such tour: ${tourId}`);
  return rows[0].manifest;
}

async function edit(tourId: string, change: (m: Manifest) => void): Promise<Manifest> {
  const manifest = await load(tourId);
  change(manifest);
  await pool.query('UPDATE tours SET manifest = $2 WHERE id = $1', [tourId, JSON.stringify(manifest)]);
  return manifest;
}

async function exclusively<T>(tourId: string, work: () => Promise<T>): Promise<T> {
  await using _lease = await TourLease.acquire(tourId);
  return work();
}

export function addPassenger(tourId: string, passenger: Passenger): Promise<Manifest> {
  return exclusively(tourId, () =>
    edit(tourId, (m) => {
      if (m.passengers.some((p) => p.passportNo === passenger.passportNo)) return;
      m.passengers.push(passenger);
    }),
  );
}

export function removePassenger(tourId: string, passportNo: string): Promise<Manifest> {
  return exclusively(tourId, () =>
    edit(tourId, (m) => {
      m.passengers = m.passengers.filter((p) => p.passportNo !== passportNo);
    }),
  );
}
