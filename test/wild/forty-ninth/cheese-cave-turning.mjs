import express from 'express';
import Redis from 'ioredis';
import axios from 'axios';
import pino from 'pino';
import { nanoid } from 'nanoid';
import { knex } from '../db/knex.mjs';

const log = pino({ name: 'cave-turning' });
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });

const RACK_LOCK_MS = 30_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

export const router = express.Router();

async function turnWheel(wheel, signal) {
  await axios.post(
    `${process.env.TURNER_URL}/racks/${wheel.rack_id}/wheels/${wheel.slot}/turn`,
    { sequence: wheel.turn_count + 1 },
    { signal, timeout: 25_000 },
  );
  await knex('wheels')
    .where({ id: wheel.id, turn_count: wheel.turn_count })
    .update({ turn_count: wheel.turn_count + 1, turned_at: knex.fn.now() });
}

router.post('/racks/:rackId/turn', async (req, res) => {
  const { rackId } = req.params;
  const key = `cave:rack:${rackId}:turning`;
  const token = nanoid();

  let reply;
  try {
    reply = await redis.set(key, token, 'PX', RACK_LOCK_MS, 'NX');
  } catch (err) {
    log.error({ err, rackId }, 'rack lock unavailable');
    return res.status(503).json({ error: 'try again later' });
  }
  if (reply !== 'OK') {
    return res.status(409).json({ error: `rack ${rackId} is being turned` });
  }

  const aborter = new AbortController();
  const heartbeat = setInterval(async () => {
    try {
      const kept = await redis.eval(EXTEND, 1, key, token, RACK_LOCK_MS);
      if (kept !== 1) aborter.abort(new Error(`rack ${rackId} taken over`));
    } catch (err) {
      aborter.abort(err);
    }
  }, 8_000);

  try {
    const wheels = await knex('wheels')
      .where({ rack_id: rackId })
      .whereNull('released_at')
      .orderBy('slot');
    for (const wheel of wheels) {
      aborter.signal.throwIfAborted();
      await turnWheel(wheel, aborter.signal);
    }
    log.info({ rackId, wheels: wheels.length }, 'rack turned');
    return res.json({ rackId, turned: wheels.length });
  } catch (err) {
    log.error({ err, rackId }, 'turning stopped');
    return res.status(502).json({ error: 'turning did not finish' });
  } finally {
    clearInterval(heartbeat);
    await redis.del(key).catch((err) => log.warn({ err, rackId }, 'could not free rack'));
  }
});
