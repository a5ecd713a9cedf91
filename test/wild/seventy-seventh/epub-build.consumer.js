'use strict';

const { randomUUID } = require('crypto');
const amqp = require('amqplib');
const { createClient } = require('redis');
const { buildEpub } = require('./epub');
const storage = require('./storage');
const log = require('./logger');

const QUEUE = 'epub.build';
const DELAY_QUEUE = 'epub.build.delay';
const DEAD_QUEUE = 'epub.build.dead';
const LOCK_SECONDS = 120;
const MAX_ATTEMPTS = 30;

const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('expire', KEYS[1], ARGV[2]) end return 0";
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

// A build takes between ten seconds and twenty minutes of a child process, so no two
// workers should spend it on the same revision. If it happens all the same they upload
// the same bytes under the same name (buildEpub pins timestamps and ids to the revision).
async function lockRevision(editionId, revision) {
  const key = `lock:epub:${editionId}:${revision}`;
  const token = randomUUID();
  if ((await redis.set(key, token, { NX: true, EX: LOCK_SECONDS })) !== 'OK') return null;

  const timer = setInterval(() => {
    redis
      .eval(EXTEND, { keys: [key], arguments: [token, String(LOCK_SECONDS)] })
      .then((ok) => {
        if (ok !== 1) {
          log.warn({ key }, 'lock is gone, build goes on');
          clearInterval(timer);
        }
      })
      .catch((err) => log.warn({ err, key }, 'lock not extended'));
  }, (LOCK_SECONDS * 1000) / 4);

  return async () => {
    clearInterval(timer);
    await redis
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((err) => log.warn({ err, key }, 'lock stays until it expires'));
  };
}

async function build({ editionId, revision }) {
  const objectKey = `epub/${editionId}/${revision}.epub`;
  if (await storage.exists(objectKey)) return 'done';

  const unlock = await lockRevision(editionId, revision);
  if (!unlock) return 'busy';
  try {
    // somebody may have finished between the first look and the lock
    if (await storage.exists(objectKey)) return 'done';
    const file = await buildEpub(editionId, revision);
    await storage.put(objectKey, file, { contentType: 'application/epub+zip' });
    return 'done';
  } finally {
    await unlock();
  }
}

async function main() {
  await redis.connect();
  const connection = await amqp.connect(process.env.AMQP_URL);
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(QUEUE, { durable: true });
  await channel.assertQueue(DEAD_QUEUE, { durable: true });
  await channel.assertQueue(DELAY_QUEUE, {
    durable: true,
    messageTtl: 60_000,
    deadLetterExchange: '',
    deadLetterRoutingKey: QUEUE,
  });
  await channel.prefetch(1);

  async function handOver(msg, queue, attempts) {
    channel.sendToQueue(queue, msg.content, { persistent: true, headers: { 'x-attempts': attempts } });
    await channel.waitForConfirms();
  }

  await channel.consume(QUEUE, async (msg) => {
    if (msg === null) process.exit(1); // consumer cancelled by the broker, let k8s restart us
    const attempts = Number(msg.properties.headers?.['x-attempts'] ?? 0);
    try {
      try {
        const outcome = await build(JSON.parse(msg.content.toString()));
        if (outcome === 'busy') await handOver(msg, DELAY_QUEUE, attempts);
      } catch (err) {
        log.error({ err, attempts }, 'build failed');
        await handOver(msg, attempts + 1 >= MAX_ATTEMPTS ? DEAD_QUEUE : DELAY_QUEUE, attempts + 1);
      }
      channel.ack(msg);
    } catch (err) {
      log.fatal({ err }, 'broker trouble, message stays unacknowledged');
      process.exit(1);
    }
  });
}

main().catch((err) => {
  log.fatal({ err }, 'startup failed');
  process.exit(1);
});
