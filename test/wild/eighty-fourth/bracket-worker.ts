import { Queue, Worker, UnrecoverableError } from 'bullmq';
import IORedis from 'ioredis';
import { Pool } from 'pg';
import Redlock from 'redlock5';

const url = process.env.REDIS_URL!;
const pool = new Pool({ statement_timeout: 3000 });
const redlock = new Redlock([new IORedis(url)], {
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 150,
  automaticExtensionThreshold: 3000,
});
redlock.on('error', (e) => console.warn('redlock', e.message));

type Match = { a: string | null; b: string | null; winner: string | null; next: string | null; side: 'a' | 'b' };
type Bracket = Record<string, Match>;
type Result = { bracketId: string; matchId: string; winner: string };

export const results = new Queue<Result>('match-results', { connection: { url } });

export function report(r: Result) {
  return results.add('result', r, {
    attempts: 10,
    backoff: { type: 'exponential', delay: 500 },
    removeOnComplete: 1000,
  });
}

function advance(b: Bracket, r: Result): Bracket | null {
  const m = b[r.matchId];
  if (!m) throw new UnrecoverableError(`no match ${r.matchId}`);
  if (m.winner === r.winner) return null;
  if (m.winner) throw new UnrecoverableError(`match ${r.matchId} already won by ${m.winner}`);
  if (m.a !== r.winner && m.b !== r.winner) throw new UnrecoverableError(`${r.winner} does not play ${r.matchId}`);
  const out: Bracket = { ...b, [r.matchId]: { ...m, winner: r.winner } };
  if (m.next) out[m.next] = { ...out[m.next], [m.side]: r.winner };
  return out;
}

const worker = new Worker<Result>(
  'match-results',
  async (job) => {
    const r = job.data;
    await redlock.using([`bracket:${r.bracketId}`], 10_000, async (signal) => {
      const { rows } = await pool.query('SELECT state, version FROM brackets WHERE id = $1', [r.bracketId]);
      if (!rows.length) throw new UnrecoverableError(`no bracket ${r.bracketId}`);

      const next = advance(rows[0].state, r);
      if (!next) return;

      if (signal.aborted) throw signal.error;
      const done = await pool.query(
        'UPDATE brackets SET state = $1::jsonb, version = version + 1 WHERE id = $2 AND version = $3',
        [JSON.stringify(next), r.bracketId, rows[0].version],
      );
      if (done.rowCount !== 1) throw new Error('bracket changed, again please');
    });
  },
  { connection: new IORedis(url, { maxRetriesPerRequest: null }), concurrency: 8 },
);

worker.on('failed', (job, e) => console.error('result', job?.id, e.message));
process.once('SIGTERM', async () => {
  await worker.close();
  await pool.end();
  process.exit(0);
});
