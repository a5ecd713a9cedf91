import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import pino from 'pino';

const log = pino({ name: 'water-loop' });
const { REDIS_URL = 'redis://127.0.0.1:6379', CLINIC = 'north', LOOP_API = 'http://ro-plant.local' } = process.env;

const TTL_MS = 12_000;
const TICK_MS = 3_000;
const KEY = `dialysis:${CLINIC}:water-loop:leader`;
const me = `${hostname()}-${randomUUID()}`;

const HOLD = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if cur then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const redis = new Redis(REDIS_URL, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));

let leading = false;
let stepping = false;

const election = setInterval(campaign, TICK_MS);
const stepper = setInterval(step, 1_000);
campaign();

for (const sig of ['SIGINT', 'SIGTERM']) process.once(sig, shutdown);

async function campaign() {
  try {
    const won = await redis.eval(HOLD, 1, KEY, me, TTL_MS);
    setLeading(won === 1);
  } catch (err) {
    log.warn({ err: err.message, leading }, 'campaign failed, trying again');
  }
}

function setLeading(next) {
  if (next === leading) return;
  leading = next;
  log.info({ me, leading }, leading ? 'took over the loop' : 'handed the loop over');
}

// one valve a second through the disinfection cycle; only the leader may touch the plant
async function step() {
  if (!leading || stepping) return;
  stepping = true;
  try {
    const r = await fetch(`${LOOP_API}/cycle/advance`, { method: 'POST', signal: AbortSignal.timeout(2_000) });
    if (!r.ok) log.error({ status: r.status }, 'plant refused to advance');
  } catch (err) {
    log.error({ err: err.message }, 'plant unreachable');
  } finally {
    stepping = false;
  }
}

async function shutdown() {
  clearInterval(election);
  clearInterval(stepper);
  setLeading(false);
  while (stepping) await new Promise((resolve) => setTimeout(resolve, 50));
  await redis.eval(RESIGN, 1, KEY, me).catch(() => {});
  redis.disconnect();
  process.exit(0);
}
