import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.warn('redis', e.message));
await redis.connect();
const pool = new pg.Pool({ connectionTimeoutMillis: 3_000, statement_timeout: 4_000, query_timeout: 5_000 });

const TTL = 45_000;
const BUDGET = 30_000;

const NOW = `local t = redis.call('time') local now = t[1] * 1000 + math.floor(t[2] / 1000)`;
// KEYS: writer, readers   ARGV: id, ttl
const ENTER = {
  read: `${NOW}
    if redis.call('exists', KEYS[1]) == 1 then return 0 end
    redis.call('zremrangebyscore', KEYS[2], '-inf', now)
    redis.call('zadd', KEYS[2], string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
    redis.call('pexpire', KEYS[2], ARGV[2])
    return 1`,
  write: `${NOW}
    redis.call('zremrangebyscore', KEYS[2], '-inf', now)
    if redis.call('zcard', KEYS[2]) > 0 then return 0 end
    if redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 end
    return 0`,
};
const LEAVE = {
  read: `return redis.call('zrem', KEYS[2], ARGV[1])`,
  write: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
};

async function locked<T>(mode: 'read' | 'write', book: string, fn: (s: AbortSignal) => Promise<T>): Promise<T> {
  const keys = [`{book:${book}}:writer`, `{book:${book}}:readers`];
  const id = randomUUID();
  const leave = () =>
    redis.eval(LEAVE[mode], { keys, arguments: [id] }).catch((e) => console.warn('book lock', e.message));
  const giveUp = performance.now() + 60_000;

  for (;;) {
    const sentAt = performance.now();
    try {
      if ((await redis.eval(ENTER[mode], { keys, arguments: [id, String(TTL)] })) === 1) {
        const left = Math.floor(BUDGET - (performance.now() - sentAt));
        if (left <= 0) throw new Error('redis too slow');
        return await fn(AbortSignal.timeout(left));
      }
    } finally {
      await leave();
    }
    if (performance.now() > giveUp) throw new Error(`book ${book} is busy`);
    await sleep(150 + Math.random() * 150);
  }
}

export function exportBook(book: string, path: string) {
  return locked('read', book, async (signal) => {
    const tmp = `${path}.${randomUUID()}.tmp`;
    const out = await open(tmp, 'w');
    try {
      for (let last = 0; ; ) {
        signal.throwIfAborted();
        const { rows } = await pool.query(
          'select id, moves, weight from book_lines where book = $1 and id > $2 order by id limit 5000',
          [book, last],
        );
        if (!rows.length) break;
        await out.appendFile(rows.map((r) => `${r.weight}\t${r.moves}\n`).join(''));
        last = rows.at(-1).id;
      }
      await out.close();
      signal.throwIfAborted();
      await rename(tmp, path);
    } catch (err) {
      await out.close().catch(() => {});
      await rm(tmp, { force: true });
      throw err;
    }
  });
}

export function reweigh(book: string, results: { lineId: number; delta: number }[]) {
  return locked('write', book, async (signal) => {
    const db = await pool.connect();
    let broken: Error | undefined;
    try {
      await db.query('begin');
      for (let i = 0; i < results.length; i += 2000) {
        signal.throwIfAborted();
        const part = results.slice(i, i + 2000);
        await db.query(
          `update book_lines l set weight = greatest(0, l.weight + d.delta)
           from (select id, sum(delta)::int as delta
                   from unnest($2::int[], $3::int[]) as u(id, delta) group by id) d
           where l.book = $1 and l.id = d.id`,
          [book, part.map((r) => r.lineId), part.map((r) => r.delta)],
        );
      }
      signal.throwIfAborted();
      await db.query('commit');
    } catch (err) {
      await db.query('rollback').catch((e) => (broken = e));
      throw err;
    } finally {
      db.release(broken);
    }
  });
}
