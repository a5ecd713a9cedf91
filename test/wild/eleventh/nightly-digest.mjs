#!/usr/bin/env node
// crontab: 15 2 * * *  node nightly-digest.mjs
// Installed on every app server; whoever gets the lock does the run.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { createClient } from 'redis';

const LOCK = 'digest:lock';
const TTL_MS = 60_000;
const RENEW_EVERY_MS = 15_000;

const redis = createClient({
  url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  socket: { reconnectStrategy: (n) => (n > 20 ? new Error('redis is away') : 200) },
});
redis.on('error', (err) => console.error('redis:', err.message));

const token = `${hostname()}:${randomBytes(12).toString('hex')}`;
const lost = new AbortController();
let validUntil = 0;
let timer;

function held() {
  return !lost.signal.aborted && performance.now() < validUntil;
}

async function acquire() {
  const sentAt = performance.now();
  const reply = await redis.set(LOCK, token, { condition: 'NX', expiration: { type: 'PX', value: TTL_MS } });
  if (reply !== 'OK') return false;
  validUntil = sentAt + TTL_MS - 2_000;
  timer = setTimeout(renew, RENEW_EVERY_MS);
  return true;
}

async function renew() {
  const sentAt = performance.now();
  try {
    const n = await redis.eval(
      `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
      { keys: [LOCK], arguments: [token, String(TTL_MS)] },
    );
    if (n !== 1) {
      lost.abort(new Error('digest lock was lost'));
      return;
    }
    validUntil = sentAt + TTL_MS - 2_000;
  } catch (err) {
    // keep trying; held() turns false by itself once the lease has run out
    console.error('renewal failed:', err.message);
  }
  if (timer) timer = setTimeout(renew, RENEW_EVERY_MS);
}

async function release() {
  clearTimeout(timer);
  timer = undefined;
  await redis.eval(
    `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
    { keys: [LOCK], arguments: [token] },
  );
}

// Hands the mail to the outbox and drops the consumed events, if the lock is (still) ours.
const HAND_OVER = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('rpush', KEYS[2], ARGV[2])
redis.call('ltrim', KEYS[3], ARGV[3], -1)
return 1`;

async function run() {
  const users = await redis.sMembers('digest:subscribers');
  for (const user of users) {
    if (!held()) throw lost.signal.reason ?? new Error('digest lease ran out');
    const pending = `digest:pending:${user}`;
    const events = await redis.lRange(pending, 0, 199);
    if (events.length === 0) continue;
    const mail = JSON.stringify({ user, subject: `${events.length} updates`, lines: events });
    const ok = await redis.eval(HAND_OVER, {
      keys: [LOCK, 'mail:outbox', pending],
      arguments: [token, mail, String(events.length)],
    });
    if (ok !== 1) throw new Error('digest lock was lost');
  }
  console.log(`digest done for ${users.length} subscribers`);
}

await redis.connect();
try {
  if (await acquire()) {
    try {
      await run();
    } finally {
      await release();
    }
  } else {
    console.log('digest is running elsewhere, nothing to do');
  }
} catch (err) {
  console.error(err);
  process.exitCode = 1;
} finally {
  redis.destroy();
}
