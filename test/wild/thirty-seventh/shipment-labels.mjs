import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import pg from 'pg';

const redis = await createClient({ url: process.env.REDIS_URL })
  .on('error', (err) => console.error('redis', err))
  .connect();

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 2_000 });

const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`;

async function withLock(name, fn, { ttl = 30_000, wait = 5_000 } = {}) {
  const key = `lock:${name}`;
  const token = randomUUID();
  const deadline = Date.now() + wait;

  while ((await redis.set(key, token, { NX: true, PX: ttl })) !== 'OK') {
    if (Date.now() > deadline) throw new Error(`timeout while waiting for ${name}`);
    await sleep(50 + Math.random() * 100);
  }

  try {
    return fn();
  } finally {
    await redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn('unlock', key, err));
  }
}

export class OutOfNumbersError extends Error {}

/**
 * Every depot has a stock of tracking numbers bought from the carrier in advance.
 * The packing stations of a depot take from it at the same time.
 */
export async function assignTrackingNumber(depotId, shipmentId) {
  return withLock(`depot:${depotId}:tracking-numbers`, async () => {
    const shipment = await db.query('SELECT tracking_no FROM shipments WHERE id = $1', [shipmentId]);
    if (shipment.rows.length === 0) throw new Error(`unknown shipment ${shipmentId}`);
    if (shipment.rows[0].tracking_no) return shipment.rows[0].tracking_no;

    const free = await db.query(
      'SELECT number FROM tracking_numbers WHERE depot_id = $1 AND shipment_id IS NULL ORDER BY number LIMIT 1',
      [depotId],
    );
    if (free.rows.length === 0) throw new OutOfNumbersError(`depot ${depotId} has no tracking numbers left`);
    const { number } = free.rows[0];

    await db.query(
      `WITH taken AS (
         UPDATE tracking_numbers SET shipment_id = $2 WHERE number = $1
       )
       UPDATE shipments SET tracking_no = $1 WHERE id = $2`,
      [number, shipmentId],
    );
    return number;
  });
}

export async function printLabel(depotId, shipmentId, printer) {
  const trackingNumber = await assignTrackingNumber(depotId, shipmentId);
  await printer.print({ template: 'parcel-a6', barcode: trackingNumber });
  return trackingNumber;
}
