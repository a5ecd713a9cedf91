'use strict';

const cron = require('node-cron');
const { createClient } = require('redis');
const { randomUUID } = require('node:crypto');

const config = {
  redisUrl: process.env.REDIS_URL || 'redis://localhost:6379',
  farmApi: process.env.FARM_API || 'http://farm.local',
  lockTtl: Number(process.env.LOCK_TTL || 120), // s, a pass is capped at 60
  schedule: '*/2 * * * *',
};

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const client = createClient({ url: config.redisUrl });
client.on('error', (err) => console.error('redis', err));

async function api(method, path, body, signal) {
  const res = await fetch(config.farmApi + path, {
    method,
    headers: { 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
    signal,
  });
  if (!res.ok) throw new Error(`${method} ${path} -> ${res.status}`);
  return res.json();
}

async function assignBeds() {
  const signal = AbortSignal.timeout(60_000);
  const beds = await api('GET', '/beds?state=idle', undefined, signal);
  const queue = await api('GET', `/prints?state=waiting&limit=${beds.length}`, undefined, signal);
  for (const [i, print] of queue.entries()) {
    // slicing takes a few seconds per model
    const gcode = await api('POST', `/prints/${print.id}/slice`, { profile: beds[i].profile }, signal);
    await api('POST', `/beds/${beds[i].id}/start`, { printId: print.id, file: gcode.file }, signal);
  }
  return queue.length;
}

async function tick() {
  const key = 'print-farm:assign';
  const token = randomUUID();
  const ok = await client.set(key, token, { NX: true, PX: config.lockTtl });
  if (ok === null) return; // another replica has this tick

  try {
    const n = await assignBeds();
    if (n > 0) console.log('started %d prints', n);
  } finally {
    await client.eval(UNLOCK, { keys: [key], arguments: [token] });
  }
}

async function main() {
  await client.connect();
  cron.schedule(config.schedule, () => {
    tick().catch((err) => console.error('tick failed', err));
  });
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
