import { Redis } from 'ioredis';
import pg from 'pg';
import Redlock from 'redlock5';
import type { RedlockAbortSignal } from 'redlock5';

// three standalone instances in three halls, no replication between them
const halls = ['redis://hall-1:6379', 'redis://hall-2:6379', 'redis://hall-3:6379'];

const redlock = new Redlock(
  halls.map((url) => new Redis(url, { maxRetriesPerRequest: 0, commandTimeout: 800 })),
  {
    driftFactor: 0.01,
    retryCount: 5,
    retryDelay: 400,
    retryJitter: 150,
    automaticExtensionThreshold: 18_000,
  },
);

redlock.on('error', (err: Error) => {
  if (err.name !== 'ResourceLockedError') console.warn('redlock:', err.message);
});

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });

interface Drawer {
  accession: string;
  grams: number;
}

function bail(signal: RedlockAbortSignal): void {
  if (signal.aborted) throw signal.error ?? new Error('aisle lock lost');
}

async function weigh(aisle: string, drawer: number, signal: RedlockAbortSignal): Promise<Drawer[]> {
  const res = await fetch(`http://scales.vault/${aisle}/${drawer}`, { signal });
  if (!res.ok) throw new Error(`scales ${aisle}/${drawer}: ${res.status}`);
  return (await res.json()) as Drawer[];
}

/** A full count takes about twenty minutes, two in one aisle would only get in each other's way. */
export async function countAisle(aisle: string): Promise<number> {
  return redlock.using([`vault:aisle:${aisle}`], 30_000, async (signal) => {
    const { rows } = await db.query<{ revision: number; drawers: number }>(
      'SELECT revision, drawers FROM aisle WHERE id = $1',
      [aisle],
    );
    const current = rows[0];
    if (!current) throw new Error(`no aisle ${aisle}`);

    const found: Drawer[] = [];
    for (let drawer = 1; drawer <= current.drawers; drawer++) {
      bail(signal);
      found.push(...(await weigh(aisle, drawer, signal)));
    }

    bail(signal);
    const written = await db.query(
      `UPDATE aisle SET content = $1, revision = revision + 1, counted_at = now()
       WHERE id = $2 AND revision = $3`,
      [JSON.stringify(found), aisle, current.revision],
    );
    if (written.rowCount !== 1) throw new Error(`aisle ${aisle} was changed during the count`);
    return found.length;
  });
}

if (process.argv[2]) {
  const count = await countAisle(process.argv[2]);
  console.log(`${count} accessions`);
  process.exit(0);
}
