// Poor man's leader election, so that only one of the pods sends reminder mails.
// usage: node scheduler-leader.cjs
const crypto = require('crypto');
const os = require('os');
const { createClient } = require('redis');
const { sendDueReminders } = require('./reminders');

const KEY = 'leader:reminders';
const ME = `${os.hostname()}:${process.pid}:${crypto.randomBytes(4).toString('hex')}`;
const LEASE_SECONDS = 15;
const CHECK_EVERY = 5 * 1000;

const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  socket: { reconnectStrategy: (n) => Math.min(n * 200, 3000) },
});
redis.on('error', (e) => console.error('redis:', e.message));

let isLeader = false;

const RENEW = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("expire", KEYS[1], ARGV[2])
  end
  return 0
`;

const RESIGN = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

async function campaign() {
  const ok = await redis.set(KEY, ME, { NX: true, EX: LEASE_SECONDS });
  if (ok === 'OK') {
    isLeader = true;
    console.log(`${ME} is the leader now`);
  }
}

async function renew() {
  const still = await redis.eval(RENEW, { keys: [KEY], arguments: [ME, String(LEASE_SECONDS)] });
  if (still !== 1) {
    isLeader = false;
    console.log(`${ME} lost the leadership`);
  }
}

async function check() {
  try {
    if (isLeader) {
      await renew();
    } else {
      await campaign();
    }
  } catch (e) {
    // redis restarts now and then, we'll get it on the next round
    console.warn(`leader check failed (${e.message}), retrying in ${CHECK_EVERY / 1000}s`);
  }
}

// one mail at a time, leadership is looked at before each of them
async function work() {
  if (isLeader) {
    try {
      await sendDueReminders({ limit: 1 });
    } catch (e) {
      console.error('reminder failed', e);
    }
  }
  setTimeout(work, 1000);
}

async function main() {
  await redis.connect();
  await check();
  setInterval(check, CHECK_EVERY);
  work();
}

process.on('SIGTERM', async () => {
  isLeader = false;
  await redis.eval(RESIGN, { keys: [KEY], arguments: [ME] }).catch(() => {});
  process.exit(0);
});

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
