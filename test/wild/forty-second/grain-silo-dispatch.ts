import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { Kafka } from 'kafkajs';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 4_000 });
const kafka = new Kafka({ clientId: 'silo-dispatch', brokers: process.env.KAFKA_BROKERS!.split(',') });

const TTL_MS = 30_000;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

interface SiloLock {
  assertHeld(): void;
  release(): Promise<void>;
}

async function lockSilo(siloId: string): Promise<SiloLock | null> {
  const key = `silo:${siloId}:dispatch`;
  const token = randomUUID();
  let renewedAt = Date.now();
  if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') return null;

  let lost = false;
  const timer = setInterval(async () => {
    const at = Date.now();
    try {
      if ((await redis.eval(EXTEND, 1, key, token, TTL_MS)) === 1) renewedAt = at;
      else lost = true;
    } catch (err) {
      console.warn('silo lock extend', siloId, err);
    }
  }, TTL_MS / 5);

  return {
    assertHeld() {
      if (lost || Date.now() - renewedAt > TTL_MS - 8_000) throw new Error(`silo ${siloId} lock lost`);
    },
    async release() {
      clearInterval(timer);
      await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn('silo unlock', siloId, err));
    },
  };
}

async function loadSilo(siloId: string): Promise<{ id: string; tonnes: number; crop: string }> {
  const { rows } = await pool.query('SELECT id, tonnes, crop FROM silos WHERE id = $1', [siloId]);
  if (!rows.length) throw new Error(`no silo ${siloId}`);
  return { ...rows[0], tonnes: Number(rows[0].tonnes) };
}

async function openGate(siloId: string, tonnes: number): Promise<void> {
  const res = await fetch(`${process.env.PLC_GATEWAY}/silos/${siloId}/gate`, {
    method: 'POST',
    body: JSON.stringify({ tonnes }),
    signal: AbortSignal.timeout(5_000),
  });
  if (!res.ok) throw new Error(`plc gateway ${res.status}`);
}

async function dispatch(siloId: string, orderId: string, tonnes: number): Promise<void> {
  const lock = await lockSilo(siloId);
  // kafkajs backs off and hands us the message again
  if (!lock) throw new Error(`silo ${siloId} is loading another truck`);

  const silo = await loadSilo(siloId);
  if (silo.tonnes < tonnes) {
    console.warn(`silo ${siloId} has ${silo.tonnes} t of ${silo.crop}, order ${orderId} wants ${tonnes} t`);
    await pool.query("UPDATE orders SET state = 'short' WHERE id = $1", [orderId]);
    return;
  }

  try {
    lock.assertHeld();
    await pool.query('UPDATE silos SET tonnes = $2 WHERE id = $1', [siloId, silo.tonnes - tonnes]);
    lock.assertHeld();
    await openGate(siloId, tonnes);
    await pool.query('UPDATE orders SET loaded_at = now() WHERE id = $1', [orderId]);
  } finally {
    await lock.release();
  }
}

export async function run(): Promise<void> {
  const consumer = kafka.consumer({ groupId: 'silo-dispatch' });
  await consumer.connect();
  await consumer.subscribe({ topic: 'grain.orders' });
  await consumer.run({
    eachMessage: async ({ message }) => {
      const order = JSON.parse(message.value!.toString());
      await dispatch(order.siloId, order.orderId, Number(order.tonnes));
    },
  });
}
