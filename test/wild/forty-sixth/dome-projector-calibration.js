import { randomUUID } from 'node:crypto';
import amqp from 'amqplib';
import { createClient } from 'redis';
import pino from 'pino';
import { loadShow, saveProfile } from './shows.repository.js';
import { measureProjector } from './photometer.js';

const log = pino({ name: 'dome-calibration' });
const QUEUE = 'dome.calibration';
const TTL_MS = 20_000;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));

async function takeDome(domeId) {
  const key = `dome:${domeId}`;
  const token = randomUUID();
  const controller = new AbortController();
  let until = performance.now() + TTL_MS;
  const ok = await redis.set(key, token, { NX: true, PX: TTL_MS });
  if (ok !== 'OK') return null;

  let expiry = setTimeout(() => controller.abort(new Error('dome lock expired')), until - performance.now() - 2_000);
  const timer = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const renewed = await redis.eval(RENEW, { keys: [key], arguments: [token, String(TTL_MS)] });
      if (renewed !== 1) {
        clearInterval(timer);
        controller.abort(new Error('dome lock lost'));
        return;
      }
      until = sentAt + TTL_MS;
      clearTimeout(expiry);
      expiry = setTimeout(() => controller.abort(new Error('dome lock expired')), until - performance.now() - 2_000);
    } catch (err) {
      log.warn({ err, key }, 'renewal failed');
    }
  }, TTL_MS / 4);

  return {
    signal: controller.signal,
    async release() {
      clearInterval(timer);
      clearTimeout(expiry);
      await redis
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => log.warn({ err, key }, 'release failed'));
      clearTimeout(expiry);
    },
  };
}

async function calibrate({ domeId, showId }) {
  const dome = await takeDome(domeId);
  if (!dome) return 'busy';

  const show = await loadShow(showId);
  if (!show) throw new Error(`show ${showId} does not exist`);
  if (show.domeId !== domeId) throw new Error(`show ${showId} does not run in dome ${domeId}`);

  try {
    const profile = [];
    for (const projector of show.projectors) {
      dome.signal.throwIfAborted();
      profile.push(await measureProjector(projector, show.targetLuminance, { signal: dome.signal }));
    }
    dome.signal.throwIfAborted();
    await saveProfile(showId, profile, { expectedRevision: show.revision });
    return 'done';
  } finally {
    await dome.release();
  }
}

await redis.connect();
const conn = await amqp.connect(process.env.AMQP_URL);
const channel = await conn.createChannel();
await channel.assertQueue(QUEUE, { durable: true, deadLetterExchange: 'dome.failed' });
await channel.prefetch(4);
await channel.consume(QUEUE, async (msg) => {
  if (!msg) return;
  try {
    const outcome = await calibrate(JSON.parse(msg.content.toString()));
    if (outcome === 'busy') setTimeout(() => channel.nack(msg, false, true), 5_000);
    else channel.ack(msg);
  } catch (err) {
    log.error({ err }, 'calibration failed');
    channel.nack(msg, false, false);
  }
});
