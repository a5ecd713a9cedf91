import Redis from 'ioredis';
import { Kafka, type EachMessagePayload } from 'kafkajs';
import pino from 'pino';
import Redlock, { ResourceLockedError } from 'redlock5';
import { z } from 'zod';
import { prisma } from '../db';
import { carrierClient } from './carrier';
import { config } from './config';

const log = pino({ name: 'label-consumer' });

// Three standalone nodes in three zones, no replication between them.
const nodes = config.lockNodes.map(
  (url: string) => new Redis(url, { commandTimeout: 700, maxRetriesPerRequest: 1, enableOfflineQueue: false }),
);
for (const node of nodes) node.on('error', (err) => log.warn({ err }, 'lock node'));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 4_000,
});

redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return; // contention, normal
  log.error({ err }, 'redlock');
});

const ShipmentReady = z.object({
  shipmentId: z.string(),
  carrier: z.enum(['dhl', 'gls', 'postnl']),
  weightGrams: z.number().int().positive(),
});

async function createLabel(msg: z.infer<typeof ShipmentReady>, signal: AbortSignal) {
  const shipment = await prisma.shipment.findUniqueOrThrow({ where: { id: msg.shipmentId } });
  if (shipment.status !== 'READY') {
    log.info({ shipmentId: shipment.id, status: shipment.status }, 'nothing to do');
    return;
  }

  // The carrier returns the same label for the same idempotency key, so a redelivered message
  // (or a second holder after a lost lock) does not buy postage twice.
  const label = await carrierClient(msg.carrier).buyLabel(
    { reference: shipment.id, address: shipment.address, weightGrams: msg.weightGrams },
    { idempotencyKey: `label:${shipment.id}`, signal, timeoutMs: 6_000 },
  );

  if (signal.aborted) throw signal.reason ?? new Error('lock lost');

  const { count } = await prisma.shipment.updateMany({
    where: { id: shipment.id, status: 'READY' },
    data: { status: 'LABELLED', trackingCode: label.trackingCode, labelUrl: label.url },
  });
  if (count === 0) log.info({ shipmentId: shipment.id }, 'already labelled');
}

export async function onMessage({ message, partition, heartbeat }: EachMessagePayload) {
  const parsed = ShipmentReady.safeParse(JSON.parse(message.value?.toString() ?? 'null'));
  if (!parsed.success) {
    log.error({ partition, offset: message.offset, issues: parsed.error.issues }, 'poison message skipped');
    return;
  }

  // Throws if the lock cannot be had; kafkajs then delivers the message again.
  await redlock.using([`lock:shipment:${parsed.data.shipmentId}`], 15_000, async (signal) => {
    await createLabel(parsed.data, signal as unknown as AbortSignal);
  });
  await heartbeat();
}

export async function start() {
  const kafka = new Kafka({ clientId: 'label-service', brokers: config.brokers });
  const consumer = kafka.consumer({ groupId: 'label-service' });
  await consumer.connect();
  await consumer.subscribe({ topic: 'shipment.ready' });
  await consumer.run({ eachMessage: onMessage });

  process.once('SIGTERM', async () => {
    await consumer.disconnect();
    await redlock.quit().catch(() => undefined);
    process.exit(0);
  });
}
