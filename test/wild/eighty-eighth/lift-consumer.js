'use strict';
const amqp = require('amqplib');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');
const { setTimeout: sleep } = require('node:timers/promises');
const log = require('./logger');

const { REDIS_URL, AMQP_URL, LIFT_QUEUE = 'lift.commands', LIFT_API = 'http://lift-gw:7000' } = process.env;
const TTL = 15_000;

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const redis = createClient({ url: REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

main().catch((err) => {
  log.fatal({ err }, 'lift consumer died');
  process.exit(1);
});

async function main() {
  await redis.connect();
  const conn = await amqp.connect(AMQP_URL);
  conn.on('close', () => process.exit(1));
  const ch = await conn.createChannel();
  await ch.assertQueue(LIFT_QUEUE, { durable: true });
  await ch.prefetch(8);
  await ch.consume(LIFT_QUEUE, async (msg) => {
    if (!msg) return;
    try {
      const cmd = JSON.parse(msg.content.toString());
      const ran = await withLift(cmd.liftId, (signal) => apply(cmd, signal));
      if (ran) return ch.ack(msg);
      await sleep(500 + Math.random() * 500);
      ch.nack(msg, false, true);
    } catch (err) {
      log.error({ err, messageId: msg.properties.messageId }, 'lift command failed');
      ch.nack(msg, false, !msg.fields.redelivered);
    }
  });
}

async function withLift(liftId, fn) {
  const key = `ski:lift:${liftId}`;
  const token = randomUUID();
  let validUntil = Date.now() + TTL;
  if ((await redis.set(key, token, { NX: true, PX: TTL })) !== 'OK') return false;

  const lost = new AbortController();
  const beat = setInterval(async () => {
    const sentAt = Date.now();
    if (sentAt > validUntil - TTL / 3) lost.abort(new Error(`${key} not renewed in time`));
    const ok = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL)] }).catch(() => -1);
    if (ok === 1) validUntil = sentAt + TTL;
    else if (ok === 0) lost.abort(new Error(`lost ${key}`));
  }, TTL / 5);

  await fn(lost.signal);
  clearInterval(beat);
  await redis
    .eval(RELEASE, { keys: [key], arguments: [token] })
    .catch((err) => log.warn({ err, key }, 'release failed'));
  return true;
}

async function apply({ liftId, action, speed }, signal) {
  const r = await fetch(`${LIFT_API}/lifts/${liftId}/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ speed }),
    signal,
  });
  if (!r.ok) throw new Error(`lift ${liftId} ${action}: ${r.status}`);
}
