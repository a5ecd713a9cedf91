import { hostname } from 'node:os';
import { Kafka, type EachMessagePayload } from 'kafkajs';
import { createClient } from 'redis';
import { config } from './config';
import { logger } from './logger';
import { metrics } from '../metrics';
import { paymentOrders } from '../db';
import { treasury } from './treasury';

interface SubsidyApproved {
  eventId: string;
  farmId: string;
  schemeYear: number;
  amountCents: number;
  iban: string;
}

const SEEN_DAYS = 7;

const redis = createClient({ url: config.redis.url });
redis.on('error', (err) => logger.error({ err }, 'redis connection'));

const kafka = new Kafka({ clientId: 'subsidy-payments', brokers: config.kafka.brokers });
const consumer = kafka.consumer({ groupId: 'subsidy-payments', retry: { retries: 8 } });

/**
 * Kafka delivers at least once and a rebalance can hand the same offset to two pods,
 * so every event is claimed in Redis first.
 */
async function claimEvent(eventId: string): Promise<boolean> {
  const reply = await redis.set(`subsidy:seen:${eventId}`, hostname(), {
    NX: true,
    EX: SEEN_DAYS * 24 * 60 * 60,
  });
  return reply === 'OK';
}

async function payOut(event: SubsidyApproved): Promise<void> {
  const order = await paymentOrders.findOrCreate({
    reference: `SUB-${event.schemeYear}-${event.eventId}`,
    farmId: event.farmId,
    amountCents: event.amountCents,
  });
  // the treasury answers a known reference with the first receipt
  const receipt = await treasury.submit({
    reference: order.reference,
    iban: event.iban,
    amountCents: event.amountCents,
  });
  await paymentOrders.markSubmitted(order.id, receipt.id);
}

async function onMessage({ message, partition }: EachMessagePayload): Promise<void> {
  if (!message.value) return;
  const event = JSON.parse(message.value.toString()) as SubsidyApproved;

  if (!(await claimEvent(event.eventId))) {
    metrics.increment('subsidy.duplicate');
    logger.info({ eventId: event.eventId, partition }, 'event already handled, skipping');
    return;
  }

  try {
    await payOut(event);
    metrics.increment('subsidy.paid');
  } catch (err) {
    metrics.increment('subsidy.failed');
    logger.error({ err, eventId: event.eventId, offset: message.offset }, 'payout failed, kafka will retry');
    throw err;
  }
}

export async function start(): Promise<void> {
  await redis.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: 'subsidy.approved', fromBeginning: false });
  await consumer.run({ eachMessage: onMessage });
}

export async function stop(): Promise<void> {
  await consumer.disconnect();
  await redis.quit();
}
