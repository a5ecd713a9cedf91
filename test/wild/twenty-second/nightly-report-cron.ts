import { randomUUID } from 'node:crypto';
import { access, mkdir, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { createClient } from 'redis';

type Row = { sku: string; units: number; revenueCents: number };
type LoadRows = (day: string, signal: AbortSignal) => AsyncIterable<Row>;

// Shared volume: every instance of the service sees the same folder.
const REPORT_DIR = process.env.REPORT_DIR ?? '/mnt/reports';
const LOCK_TTL_MS = 10 * 60_000;
const BUDGET_MS = 8 * 60_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

const exists = (file: string) => access(file).then(() => true, () => false);

/**
 * Entry point for the nightly cron. All instances start at the same moment and
 * the lock picks the one that does the heavy query.
 *
 * The report is complete or absent: it is written to a private temporary file
 * and moved into place with an atomic rename.
 */
export async function runNightlyReport(day: string, loadRows: LoadRows): Promise<'written' | 'skipped'> {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('[nightly-report] redis', err));
  await client.connect();

  const key = `lock:nightly-report:${day}`;
  const token = randomUUID();
  try {
    // The budget starts before the request, hence always before the TTL does.
    const deadline = performance.now() + BUDGET_MS;
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: LOCK_TTL_MS },
    });
    if (reply !== 'OK') return 'skipped';

    try {
      return await writeReport(day, token, deadline, loadRows);
    } finally {
      await client
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => console.warn('[nightly-report] release failed, the lock will expire', err));
    }
  } finally {
    client.destroy();
  }
}

async function writeReport(
  day: string,
  token: string,
  deadline: number,
  loadRows: LoadRows,
): Promise<'written' | 'skipped'> {
  const signal = AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now())));
  const checkTime = () => {
    signal.throwIfAborted();
    // Also look at the clock: after a long pause the timer may not have fired yet.
    if (performance.now() >= deadline) throw new Error('Nightly report ran out of time');
  };

  const target = path.join(REPORT_DIR, `sales-${day}.csv`);
  const temporary = `${target}.${token}.tmp`;
  if (await exists(target)) return 'skipped';
  await mkdir(REPORT_DIR, { recursive: true });

  try {
    checkTime();
    const file = await open(temporary, 'wx');
    try {
      await file.appendFile('sku,units,revenue_cents\n');
      for await (const row of loadRows(day, signal)) {
        checkTime();
        await file.appendFile(`${row.sku},${row.units},${row.revenueCents}\n`);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    checkTime();
    await rename(temporary, target);
    return 'written';
  } finally {
    await rm(temporary, { force: true });
  }
}
