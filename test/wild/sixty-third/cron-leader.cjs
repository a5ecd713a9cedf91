'use strict';

const os = require('node:os');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');
const { jobs } = require('./jobs.cjs');
const logger = require('./logger.cjs');

const LEADER_KEY = process.env.CRON_LEADER_KEY || 'cron:leader';
const LEASE_MS = 15_000;
const HEARTBEAT_MS = 5_000;
const TICK_MS = 1_000;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const id = `${os.hostname()}:${process.pid}:${randomUUID()}`;
const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 5_000,
  socket: { connectTimeout: 2_000, reconnectStrategy: (retries) => Math.min(retries * 200, 3_000) },
});
redis.on('error', (err) => logger.warn({ err: err.message }, 'redis connection'));

let leader = false;
let beating = false;

function setLeader(next) {
  if (leader === next) return;
  leader = next;
  logger.info({ id, leader }, leader ? 'became cron leader' : 'stepped down as cron leader');
}

async function heartbeat() {
  if (beating) return;
  beating = true;
  try {
    if (leader) {
      const renewed = await redis.eval(RENEW, {
        keys: [LEADER_KEY],
        arguments: [id, String(LEASE_MS)],
      });
      setLeader(renewed === 1);
    } else {
      const reply = await redis.set(LEADER_KEY, id, { NX: true, PX: LEASE_MS });
      setLeader(reply === 'OK');
    }
  } catch (err) {
    logger.warn({ err: err.message, leader }, 'leader heartbeat failed, next one will tell');
  } finally {
    beating = false;
  }
}

const running = new Set();

function startJob(job, slot) {
  const work = job
    .run({ slot })
    .catch((err) => logger.error({ err, job: job.name }, 'cron job failed'))
    .finally(() => running.delete(work));
  running.add(work);
}

let lastSlot = Math.floor(Date.now() / 60_000);

/** Starts whatever is due in this minute; only the leader does. */
function tick() {
  const slot = Math.floor(Date.now() / 60_000);
  if (slot === lastSlot) return;
  lastSlot = slot;
  if (!leader) return;

  for (const job of jobs) {
    if (job.isDue(slot)) startJob(job, slot);
  }
}

async function main() {
  await redis.connect();
  await heartbeat();

  const heartbeatTimer = setInterval(heartbeat, HEARTBEAT_MS);
  const tickTimer = setInterval(tick, TICK_MS);

  const shutdown = async (signal) => {
    logger.info({ signal }, 'shutting down');
    clearInterval(tickTimer);
    await Promise.allSettled([...running]);
    clearInterval(heartbeatTimer);
    await redis.eval(RESIGN, { keys: [LEADER_KEY], arguments: [id] }).catch(() => undefined);
    await redis.quit().catch(() => undefined);
    process.exit(0);
  };
  process.once('SIGTERM', shutdown);
  process.once('SIGINT', shutdown);
}

main().catch((err) => {
  logger.fatal({ err }, 'cron could not start');
  process.exit(1);
});
