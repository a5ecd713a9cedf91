import { Kafka } from 'kafkajs';
import Redis from 'ioredis';
import Redlock from 'redlock5';
import axios from 'axios';
import knex from 'knex';
import pino from 'pino';

const log = pino({ name: 'wagon-allocation' });
const db = knex({ client: 'pg', connection: process.env.DATABASE_URL });

const nodes = ['redis-1', 'redis-2', 'redis-3'].map(
  (host) => new Redis({ host, port: 6379, maxRetriesPerRequest: 1, connectTimeout: 500, commandTimeout: 500 }),
);
for (const node of nodes) node.on('error', (err) => log.warn({ err: err.message }, 'redis node'));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 250,
  retryJitter: 100,
  automaticExtensionThreshold: 9_000,
});
redlock.on('error', (err) => log.debug({ err: err.message }, 'redlock'));

interface ConsignmentEvent {
  consignmentId: string;
  yard: string;
  tonnes: number;
}

function ensureHeld(signal: { aborted: boolean; error?: Error } & AbortSignal) {
  if (signal.aborted) throw signal.error ?? new Error('yard lock lost');
}

async function allocate(ev: ConsignmentEvent): Promise<void> {
  await redlock.using([`yard:${ev.yard}`], 20_000, async (signal) => {
    const consignment = await db('consignments').where({ id: ev.consignmentId }).first();
    if (!consignment || consignment.wagon_id) return;

    const wagon = await db('wagons')
      .where({ yard: ev.yard })
      .whereNull('consignment_id')
      .where('max_tonnes', '>=', ev.tonnes)
      .orderBy('max_tonnes', 'asc')
      .first();
    ensureHeld(signal);
    if (!wagon) {
      await db('consignments').where({ id: ev.consignmentId }).whereNull('wagon_id').update({ state: 'waiting' });
      return;
    }

    const clearance = await axios.get(`${process.env.ROUTES_URL}/clearance`, {
      params: { wagon: wagon.number, tonnes: ev.tonnes },
      timeout: 8_000,
      signal,
    });
    ensureHeld(signal);

    await db.transaction(async (trx) => {
      const w = await trx('wagons')
        .where({ id: wagon.id })
        .whereNull('consignment_id')
        .update({ consignment_id: ev.consignmentId });
      const c = await trx('consignments')
        .where({ id: ev.consignmentId })
        .whereNull('wagon_id')
        .update({ wagon_id: wagon.id, state: 'allocated', clearance_ref: clearance.data.ref });
      if (w !== 1 || c !== 1) throw new Error(`allocation of ${ev.consignmentId} was overtaken`);
      ensureHeld(signal);
    });
    log.info({ consignment: ev.consignmentId, wagon: wagon.number }, 'allocated');
  });
}

async function main() {
  const kafka = new Kafka({ clientId: 'wagon-allocation', brokers: process.env.KAFKA!.split(',') });
  const consumer = kafka.consumer({ groupId: 'wagon-allocation', sessionTimeout: 60_000 });
  await consumer.connect();
  await consumer.subscribe({ topic: 'consignments.accepted' });
  await consumer.run({
    // A throw leaves the offset where it is, kafkajs delivers the message again.
    eachMessage: async ({ message }) => {
      await allocate(JSON.parse(message.value!.toString()) as ConsignmentEvent);
    },
  });
}

main().catch((err) => {
  log.fatal(err);
  process.exit(1);
});
