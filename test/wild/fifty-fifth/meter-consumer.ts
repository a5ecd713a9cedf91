import { randomUUID } from 'node:crypto';
import axios from 'axios';
import Redis from 'ioredis';
import { Kafka } from 'kafkajs';
import { Pool } from 'pg';
import pino from 'pino';
import { z } from 'zod';

const log = pino({ name: 'meter-consumer' });
const pool = new Pool();
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

declare module 'ioredis' {
  interface RedisCommander<Context> {
    takeTurn(lock: string, counter: string, owner: string, ttl: number): Promise<number>;
    leaveTurn(lock: string, owner: string): Promise<number>;
  }
}

// The counter has no TTL: it must never start over while a meter exists.
redis.defineCommand('takeTurn', {
  numberOfKeys: 2,
  lua: `
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      return redis.call('INCR', KEYS[2])
    end
    return 0`,
});
redis.defineCommand('leaveTurn', {
  numberOfKeys: 1,
  lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
});

const Reading = z.object({ meterId: z.string(), seq: z.coerce.bigint(), kwh: z.number().nonnegative() });
type Reading = z.infer<typeof Reading>;

class MeterBusy extends Error {}
class StaleTurn extends Error {}

/**
 * Back-office corrections work on the same accounts, so being alone on a
 * partition is not enough. The tariff service is sometimes very slow; that is
 * fine, since the account row only takes writes of the newest turn.
 */
async function applyReading(r: Reading, turn: number): Promise<void> {
  const claimed = await pool.query(
    `UPDATE meter_accounts SET turn = $2
      WHERE meter_id = $1 AND turn < $2
      RETURNING balance_cents, last_seq, tariff_code`,
    [r.meterId, turn],
  );
  if (claimed.rowCount !== 1) throw new StaleTurn(`turn ${turn} refused for ${r.meterId}`);
  const account = claimed.rows[0];
  if (BigInt(account.last_seq) >= r.seq) {
    log.debug({ meterId: r.meterId, seq: String(r.seq) }, 'reading already booked');
    return;
  }

  const { data } = await axios.get(`${process.env.TARIFF_URL}/price`, {
    params: { code: account.tariff_code, kwh: r.kwh },
  });
  const cents = Math.round(data.cents);

  const booked = await pool.query(
    `WITH acc AS (
       UPDATE meter_accounts SET balance_cents = $3, last_seq = $4
        WHERE meter_id = $1 AND turn = $2
        RETURNING meter_id)
     INSERT INTO meter_charges (meter_id, seq, kwh, cents)
     SELECT meter_id, $4::bigint, $5::numeric, $6::int FROM acc`,
    [r.meterId, turn, Number(account.balance_cents) + cents, r.seq.toString(), r.kwh, cents],
  );
  if (booked.rowCount !== 1) throw new StaleTurn(`turn ${turn} overtaken for ${r.meterId}`);
}

async function handle(raw: string): Promise<void> {
  const reading = Reading.parse(JSON.parse(raw));
  const lockKey = `{meter:${reading.meterId}}:lock`;
  const owner = randomUUID();

  const turn = await redis.takeTurn(lockKey, `{meter:${reading.meterId}}:turn`, owner, 10_000);
  if (turn === 0) throw new MeterBusy(reading.meterId);
  try {
    await applyReading(reading, turn);
  } finally {
    await redis.leaveTurn(lockKey, owner).catch((err: Error) => log.warn({ err }, 'leaveTurn'));
  }
}

export async function start(): Promise<void> {
  const kafka = new Kafka({ clientId: 'billing', brokers: (process.env.KAFKA ?? '').split(',') });
  const consumer = kafka.consumer({ groupId: 'meter-billing', retry: { retries: 20 } });
  await consumer.connect();
  await consumer.subscribe({ topic: 'meter.readings' });
  // A thrown error keeps the offset, kafkajs delivers the message again.
  await consumer.run({ eachMessage: async ({ message }) => handle(message.value!.toString()) });
}
