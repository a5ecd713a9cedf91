import Redis from 'ioredis';
import axios from 'axios';
import pino from 'pino';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { batActivity } from '../sensors/bats.mjs';

const log = pino({ name: 'curtailment' });

// Two masters in each substation, no replication between them.
const hosts = ['sub-north-a', 'sub-north-b', 'sub-south-a', 'sub-south-b'];
const masters = hosts.map(
  (host) => new Redis({ host, port: 6379, commandTimeout: 200, maxRetriesPerRequest: 0, enableOfflineQueue: false }),
);
masters.forEach((node, i) => node.on('error', (err) => log.debug({ err, host: hosts[i] }, 'redis')));

const QUORUM = Math.ceil(masters.length / 2);
const TTL_MS = 40_000;
const DRIFT_MS = Math.round(TTL_MS * 0.01) + 2;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function unlockAll(key, token) {
  await Promise.allSettled(masters.map((node) => node.eval(UNLOCK, 1, key, token)));
}

async function lockFarm(farmId, attempts = 8) {
  const key = `curtailment:farm:${farmId}`;
  for (let attempt = 0; attempt < attempts; attempt++) {
    const token = randomBytes(16).toString('hex');
    const startedAt = performance.now();
    const results = await Promise.allSettled(
      masters.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
    );
    const votes = results.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const validFor = TTL_MS - DRIFT_MS - (performance.now() - startedAt);
    if (votes >= QUORUM && validFor > 15_000) {
      return { key, token, validFor };
    }
    await unlockAll(key, token);
    await sleep(150 + Math.random() * 450);
  }
  return null;
}

async function readSetpoints(farmId, signal) {
  const { data } = await axios.get(`${process.env.SCADA_URL}/farms/${farmId}/setpoints`, { signal });
  return data.turbines;
}

export async function curtail(farmId) {
  const lock = await lockFarm(farmId);
  if (!lock) {
    log.info({ farmId }, 'curtailment is running elsewhere');
    return { farmId, changed: 0, skipped: true };
  }

  try {
    const signal = AbortSignal.timeout(Math.floor(lock.validFor - 5_000));
    const [turbines, activity] = await Promise.all([
      readSetpoints(farmId, signal),
      batActivity(farmId, { signal }),
    ]);

    let changed = 0;
    for (const turbine of turbines) {
      signal.throwIfAborted();
      const passes = activity[turbine.id] ?? 0;
      const step = passes > 20 ? -400 : passes > 5 ? -150 : 100;
      const powerKw = Math.min(turbine.ratedKw, Math.max(0, turbine.powerKw + step));
      if (powerKw === turbine.powerKw) continue;
      await axios.put(`${process.env.SCADA_URL}/turbines/${turbine.id}/setpoint`, { powerKw }, { signal });
      changed += 1;
    }
    log.info({ farmId, changed }, 'setpoints adjusted');
    return { farmId, changed, skipped: false };
  } finally {
    await unlockAll(lock.key, lock.token);
  }
}
