import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { logger } from './logger';

type RedisClient = ReturnType<typeof createClient>;

// We own four floating seats of the light baking tool, shared by all build agents.
const SEATS = 4;
const KEY = 'sem:lightbake:seats';
const LEASE_MS = 30_000;
const MARGIN_MS = 5_000;

// Time is always the server's; agents have been seen minutes off.
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 1`;

const KEEP = `${NOW}
local till = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not till or tonumber(till) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

async function takeSeat(redis: RedisClient, waitMs: number) {
  const until = Date.now() + waitMs;
  while (Date.now() < until) {
    const token = randomUUID(); // a seat whose answer got lost just runs out
    const sentAt = Date.now();
    const got = await redis.eval(TAKE, { keys: [KEY], arguments: [token, String(SEATS), String(LEASE_MS)] });
    if (got === 1) return { token, sentAt };
    await sleep(2_000 + Math.random() * 1_000);
  }
  throw new Error('no bake seat became free');
}

/**
 * Runs fn while holding a seat. When the seat cannot be confirmed for LEASE_MS - MARGIN_MS the
 * signal fires; fn has the margin to get its process off the machine. (An agent frozen as a whole,
 * say a paused VM, cannot notice; the vendor's server tolerates a fifth seat for some minutes.)
 */
export async function withSeat<T>(redis: RedisClient, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { token, sentAt } = await takeSeat(redis, 20 * 60_000);
  const ac = new AbortController();
  let confirmedAt = sentAt;

  const watchdog = setInterval(() => {
    if (Date.now() - confirmedAt >= LEASE_MS - MARGIN_MS) ac.abort(new Error('seat not confirmed in time'));
  }, 250);

  const keeper = setInterval(() => {
    const askedAt = Date.now();
    redis.eval(KEEP, { keys: [KEY], arguments: [token, String(LEASE_MS)] }).then(
      (ok) => {
        if (ok === 1) confirmedAt = Math.max(confirmedAt, askedAt);
        else ac.abort(new Error('seat lost'));
      },
      (err) => logger.warn({ err }, 'could not renew bake seat'),
    );
  }, LEASE_MS / 5);

  try {
    if (Date.now() - sentAt >= LEASE_MS - MARGIN_MS) throw new Error('seat answer came too late');
    return await fn(ac.signal);
  } finally {
    clearInterval(watchdog);
    clearInterval(keeper);
    // ZREM of our own member cannot hit anybody else's seat
    await redis.zRem(KEY, token).catch((err) => logger.warn({ err }, 'seat not returned, runs out by itself'));
  }
}

export async function bakeLevel(redis: RedisClient, level: string): Promise<void> {
  await withSeat(redis, async (signal) => {
    signal.throwIfAborted();
    // pdeathsig: when this agent dies, its bake dies with it and does not go on without a seat
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'lightbake', '--level', level, '--quality', process.env.BAKE_QUALITY ?? 'final'], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const kill = () => child.kill('SIGKILL');
    signal.addEventListener('abort', kill);
    try {
      const [code] = await once(child, 'close'); // the seat is given back only when the process is gone
      signal.throwIfAborted();
      if (code !== 0) throw new Error(`lightbake ${level} ended with ${code}`);
      logger.info({ level }, 'level baked');
    } finally {
      signal.removeEventListener('abort', kill);
    }
  });
}
