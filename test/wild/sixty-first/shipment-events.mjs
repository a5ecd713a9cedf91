import { randomUUID } from 'node:crypto';
import { Kafka } from 'kafkajs';
import pg from 'pg';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'shipment-events' });
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const TTL_MS = 20_000;
const MARGIN_MS = 3_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class ShipmentLockedError extends Error {}

async function lockShipment(shipmentId) {
  const key = `shipment:lock:${shipmentId}`;
  const token = randomUUID();
  const sentAt = performance.now();
  const reply = await redis.set(key, token, { NX: true, PX: TTL_MS });
  if (reply !== 'OK') throw new ShipmentLockedError(`shipment ${shipmentId} is locked`);

  const controller = new AbortController();
  let validUntil = sentAt + TTL_MS - MARGIN_MS;
  const lose = (why) => controller.abort(new Error(`lock on shipment ${shipmentId} lost: ${why}`));
  let watchdog = setTimeout(lose, Math.max(0, validUntil - performance.now()), 'expired');

  const heartbeat = setInterval(async () => {
    const beatSentAt = performance.now();
    try {
      const extended = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL_MS)] });
      if (controller.signal.aborted) return;
      if (extended !== 1) return lose('taken over');
      validUntil = Math.max(validUntil, beatSentAt + TTL_MS - MARGIN_MS);
      clearTimeout(watchdog);
      watchdog = setTimeout(lose, Math.max(0, validUntil - performance.now()), 'expired');
    } catch (err) {
      log.warn({ err, key }, 'heartbeat failed');
    }
  }, TTL_MS / 5);

  return {
    signal: controller.signal,
    async release() {
      clearInterval(heartbeat);
      clearTimeout(watchdog);
      try {
        await redis.eval(RELEASE, { keys: [key], arguments: [token] });
      } catch (err) {
        log.warn({ err, key }, 'release failed');
      }
      clearTimeout(watchdog);
    },
  };
}

async function findShipment(id) {
  const { rows } = await pool.query('SELECT id, state, last_event_at FROM shipments WHERE id = $1', [id]);
  return rows[0];
}

async function applyEvent(shipment, event, signal) {
  const fees = await fetch(`${process.env.TARIFF_URL}/fees/${shipment.id}?event=${event.type}`, { signal });
  if (!fees.ok) throw new Error(`tariff service answered ${fees.status}`);
  const { surchargeCents } = await fees.json();
  signal.throwIfAborted();
  await pool.query(
    `UPDATE shipments SET state = $2, last_event_at = $3, surcharge_cents = surcharge_cents + $4
      WHERE id = $1 AND (last_event_at IS NULL OR last_event_at < $3)`,
    [shipment.id, event.state, event.occurredAt, surchargeCents],
  );
}

export async function handleEvent(event) {
  const lock = await lockShipment(event.shipmentId);
  const shipment = await findShipment(event.shipmentId);
  if (!shipment || shipment.state === 'DELIVERED' || new Date(event.occurredAt) <= shipment.last_event_at) {
    log.debug({ shipmentId: event.shipmentId, type: event.type }, 'event skipped');
    return;
  }
  try {
    await applyEvent(shipment, event, lock.signal);
    log.info({ shipmentId: shipment.id, type: event.type, state: event.state }, 'event applied');
  } finally {
    await lock.release();
  }
}

export async function start() {
  await redis.connect();
  const kafka = new Kafka({ clientId: 'shipment-events', brokers: process.env.KAFKA_BROKERS.split(',') });
  const consumer = kafka.consumer({ groupId: 'shipment-events' });
  await consumer.connect();
  await consumer.subscribe({ topics: ['carrier.events'] });
  await consumer.run({
    eachMessage: async ({ message, pause }) => {
      try {
        await handleEvent(JSON.parse(message.value.toString()));
      } catch (err) {
        if (err instanceof ShipmentLockedError) {
          const resume = pause();
          setTimeout(resume, 2_000);
        }
        throw err;
      }
    },
  });
}
