import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import axios from 'axios';
import { DelayedError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'shipment-labels' });
const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 5_000 });
const carrier = axios.create({ baseURL: process.env.CARRIER_URL, timeout: 10_000 });

const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;
const TTL_MS = 90_000;

// The lock is a hash owner -> depth, as replaceLabel() calls buyLabel() for the
// same order and must not block itself.
const ENTER = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0 then
  redis.call('DEL', KEYS[1])
end
return 1`;

class OrderBusy extends Error {}

async function withOrderLock<T>(orderId: string, fn: () => Promise<T>): Promise<T> {
  const key = `labels:order:${orderId}`;
  const entered = await connection.eval(ENTER, 1, key, OWNER, TTL_MS);
  if (entered !== 1) throw new OrderBusy(orderId);
  try {
    return await fn();
  } finally {
    await connection.eval(LEAVE, 1, key, OWNER).catch((err) => log.warn({ err, key }, 'leave failed'));
  }
}

interface Shipment {
  id: string;
  order_id: string;
  label_id: string | null;
  weight_g: number;
  service: string;
  address: unknown;
}

async function shipmentOf(orderId: string): Promise<Shipment> {
  const { rows } = await pool.query<Shipment>('SELECT * FROM shipments WHERE order_id = $1', [orderId]);
  if (!rows[0]) throw new Error(`order ${orderId} has no shipment`);
  return rows[0];
}

/** Labels are charged when bought, so never two for one shipment. */
async function buyLabel(orderId: string, requestId: string): Promise<string> {
  return withOrderLock(orderId, async () => {
    const shipment = await shipmentOf(orderId);
    if (shipment.label_id) return shipment.label_id;

    const { data } = await carrier.post<{ labelId: string; tracking: string; priceCents: number }>('/labels', {
      service: shipment.service,
      weight: shipment.weight_g,
      to: shipment.address,
    }, { headers: { 'idempotency-key': requestId } });
    await pool.query(
      'UPDATE shipments SET label_id = $1, tracking = $2, label_cents = $3 WHERE id = $4',
      [data.labelId, data.tracking, data.priceCents, shipment.id],
    );
    return data.labelId;
  });
}

async function replaceLabel(orderId: string, requestId: string, reason: string): Promise<string> {
  return withOrderLock(orderId, async () => {
    const shipment = await shipmentOf(orderId);
    if (shipment.label_id) {
      await carrier.post(`/labels/${shipment.label_id}/void`, { reason });
      await pool.query('UPDATE shipments SET label_id = NULL, tracking = NULL WHERE id = $1', [shipment.id]);
    }
    return buyLabel(orderId, requestId);
  });
}

type LabelJob = { orderId: string; action: 'buy' | 'replace'; reason?: string };

// Jobs for one order come from checkout, the packing station and address changes.
const worker = new Worker<LabelJob>(
  'shipment-labels',
  async (job: Job<LabelJob>, token?: string) => {
    const { orderId, action, reason } = job.data;
    try {
      const requestId = `label-job-${job.id}`; // the same when BullMQ tries again
      const labelId =
        action === 'buy' ? await buyLabel(orderId, requestId) : await replaceLabel(orderId, requestId, reason ?? 'address changed');
      return { labelId };
    } catch (err) {
      if (err instanceof OrderBusy) {
        await job.moveToDelayed(Date.now() + 5_000, token);
        throw new DelayedError();
      }
      throw err;
    }
  },
  { connection, concurrency: Number(process.env.LABEL_CONCURRENCY ?? 10) },
);

worker.on('failed', (job, err) => log.error({ err, job: job?.id, orderId: job?.data.orderId }, 'label job failed'));
process.on('SIGTERM', () => void worker.close().then(() => process.exit(0)));
