import dgram from 'node:dgram';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis'; // 5.x
import { frameFor } from './cues.mjs';

const VENUE = process.env.VENUE || 'main';
const KEY = `{${VENUE}}:cue-master`;
const EPOCH = `{${VENUE}}:cue-epoch`;
const TTL = 6000;
const MARGIN = 1500;
const BEAT = 1500;
const me = randomUUID();

const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  socket: { connectTimeout: 2000, socketTimeout: 5000 },
});
redis.on('error', (e) => console.error('redis', e.message));

const STAND = `
local cur = redis.call('GET', KEYS[1])
if cur and cur ~= ARGV[1] then return false end
local have = redis.call('GET', KEYS[2])
if cur and have then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(have)
end
local t = redis.call('TIME')
local e = math.max(tonumber(t[1]), tonumber(have or '0') + 1)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], string.format('%.0f', e))
return e`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

let lead = null; // { epoch, until }
let stopping = false;

async function beat() {
  const t0 = performance.now();
  try {
    const epoch = await redis.eval(STAND, { keys: [KEY, EPOCH], arguments: [me, String(TTL)] });
    if (epoch === null) {
      if (lead) console.log('stepped down');
      lead = null;
    } else {
      if (!lead || lead.epoch !== epoch) console.log('leading, epoch', epoch);
      lead = { epoch, until: t0 + TTL - MARGIN };
    }
  } catch (e) {
    console.warn('beat failed', e.message);
  }
}

const sock = dgram.createSocket('udp4');
const GW_PORT = Number(process.env.GW_PORT || 6454);
const GW_HOST = process.env.GW_HOST || '10.40.0.2';
let seq = 0;

// gateway keeps the highest epoch it has seen and drops frames that carry a lower one
const ticker = setInterval(() => {
  if (stopping || !lead || performance.now() >= lead.until) return;
  const head = Buffer.alloc(8);
  head.writeUInt32BE(lead.epoch, 0);
  head.writeUInt32BE(seq++ >>> 0, 4);
  sock.send([head, frameFor(Date.now())], GW_PORT, GW_HOST);
}, 40);

process.once('SIGTERM', () => {
  stopping = true;
});

await redis.connect();
while (!stopping) {
  await beat();
  await sleep(BEAT);
}
clearInterval(ticker);
lead = null;
await redis.eval(RESIGN, { keys: [KEY], arguments: [me] }).catch(() => {});
sock.close();
redis.destroy();
