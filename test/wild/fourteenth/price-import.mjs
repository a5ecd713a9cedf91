import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const TTL = 20_000;
const BATCH = 500;

const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 2_000,
  socket: { connectTimeout: 2_000, socketTimeout: 5_000 },
});
redis.on('error', (err) => console.error('redis:', err.message));

let connected;
function connect() {
  connected ??= redis.connect().catch((err) => {
    connected = undefined;
    throw err;
  });
  return connected;
}

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;
const FREE = `if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/** Extends the lease until stop() is called; `signal` fires once the lease is over. */
function keepLease(key, token, sentAt) {
  const ended = new AbortController();
  const end = (why) => ended.abort(new Error(`lease ${key}: ${why}`));
  const fuse = (from) => setTimeout(end, Math.max(0, from + TTL - 2_000 - performance.now()), 'ran out');

  let fuseTimer = fuse(sentAt);
  let busy = false;
  const ticker = setInterval(async () => {
    if (busy || ended.signal.aborted) return;
    busy = true;
    const from = performance.now();
    try {
      const kept = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL)] });
      if (kept !== 1) {
        end('taken over');
      } else if (!ended.signal.aborted) {
        clearTimeout(fuseTimer);
        fuseTimer = fuse(from);
      }
    } catch (err) {
      console.warn('could not extend %s: %s', key, err.message);
    } finally {
      busy = false;
    }
  }, TTL / 4);

  return {
    signal: ended.signal,
    stop() {
      clearInterval(ticker);
      end('stopped');
      clearTimeout(fuseTimer);
    },
  };
}

/**
 * Loads a supplier's price feed (JSON lines) into the price table.
 * Returns false when another importer is at this supplier.
 */
export async function importPrices(db, supplier) {
  await connect();

  const key = `import:prices:${supplier.id}`;
  const token = randomUUID();
  const sentAt = performance.now();
  let lease;

  try {
    const ok = await redis.set(key, token, { NX: true, PX: TTL });
    if (ok !== 'OK') return false;
    lease = keepLease(key, token, sentAt);

    const { rows } = await db.query(
      'UPDATE supplier_feeds SET run = run + 1 WHERE supplier_id = $1 RETURNING run',
      [supplier.id],
    );
    const run = rows[0].run;

    const res = await fetch(supplier.feedUrl, { signal: lease.signal });
    if (!res.ok) throw new Error(`feed of ${supplier.id} answered ${res.status}`);
    const lines = (await res.text()).split('\n').filter((l) => l.trim() !== '').map((l) => JSON.parse(l));

    for (let i = 0; i < lines.length; i += BATCH) {
      lease.signal.throwIfAborted();
      const part = lines.slice(i, i + BATCH);
      const written = await db.query(
        `WITH feed AS (SELECT supplier_id FROM supplier_feeds WHERE supplier_id = $1 AND run = $2 FOR UPDATE)
         INSERT INTO prices (supplier_id, sku, cents)
         SELECT feed.supplier_id, r.sku, r.cents
           FROM feed, jsonb_to_recordset($3::jsonb) AS r(sku text, cents bigint)
         ON CONFLICT (supplier_id, sku) DO UPDATE SET cents = excluded.cents`,
        [supplier.id, run, JSON.stringify(part)],
      );
      if (written.rowCount === 0) throw new Error(`run ${run} of ${supplier.id} was overtaken`);
    }
    return true;
  } finally {
    lease?.stop();
    await redis
      .eval(FREE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn('could not free %s: %s', key, err.message));
  }
}
