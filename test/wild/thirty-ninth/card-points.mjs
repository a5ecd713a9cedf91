import Redis from 'ioredis';
import { Kafka, logLevel } from 'kafkajs';

const redis = new Redis(process.env.REDIS_URL);
const kafka = new Kafka({
  clientId: 'card-points',
  brokers: (process.env.KAFKA_BROKERS ?? 'localhost:9092').split(','),
  logLevel: logLevel.WARN,
});
const consumer = kafka.consumer({ groupId: 'card-points', retry: { retries: 8 } });

const WEEK_SECONDS = 7 * 24 * 3600;

/** Points per euro, depends on the campaign the merchant takes part in. */
async function pointsRate(merchantId) {
  const res = await fetch(`${process.env.CAMPAIGN_URL}/merchants/${merchantId}/rate`, {
    signal: AbortSignal.timeout(3000),
  });
  if (res.status === 404) return 1;
  if (!res.ok) throw new Error(`campaign service: ${res.status}`);
  const { rate } = await res.json();
  return rate;
}

// Kafka delivers at least once, and after a rebalance two consumers may
// have the same payment for a moment. Only the first one gets the key.
async function claim(paymentId) {
  const reply = await redis.set(`points:claim:${paymentId}`, process.pid, 'EX', WEEK_SECONDS, 'NX');
  return reply === 'OK';
}

async function creditPoints(payment) {
  if (!(await claim(payment.id))) {
    console.log(`payment ${payment.id} is handled already`);
    return;
  }
  const rate = await pointsRate(payment.merchantId);
  const points = Math.floor((payment.amountCents / 100) * rate);
  if (points <= 0) return;

  await redis
    .multi()
    .hincrby(`customer:${payment.customerId}`, 'points', points)
    .rpush(`customer:${payment.customerId}:history`, JSON.stringify({ payment: payment.id, points }))
    .exec();
}

await consumer.connect();
await consumer.subscribe({ topics: ['card-payments'], fromBeginning: false });
await consumer.run({
  // a throw makes kafkajs deliver the message again
  eachMessage: async ({ message }) => {
    if (!message.value) return;
    const payment = JSON.parse(message.value.toString());
    if (payment.status !== 'settled') return;
    await creditPoints(payment);
  },
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    await consumer.disconnect();
    await redis.quit();
  });
}
