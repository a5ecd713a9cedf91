'use strict';
const { createClient } = require('redis');
const { randomUUID } = require('crypto');

// KEYS lock, seq   ARGV token, ttl
const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/**
 * POST /valves/:id/position
 * The valve firmware keeps the highest `seq` it has seen, in `enter` or `set`, and drops
 * everything that comes with a lower one. `enter` answers with the position.
 */
module.exports = async function makeHandler({ bus, logger }) {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => logger.error({ err }, 'redis'));
  await client.connect();

  return async function setPosition(req, res, next) {
    const valve = req.params.id;
    const keys = [`valve:{${valve}}:lock`, `valve:{${valve}}:seq`];
    const token = randomUUID();
    let seq = 0;
    try {
      seq = Number(await client.eval(LOCK, { keys, arguments: [token, '10000'] }));
    } catch (err) {
      return next(err);
    }
    if (!seq) {
      res.set('Retry-After', '2');
      return res.status(423).json({ error: 'valve is being operated' });
    }
    try {
      const now = await bus.request(`valves/${valve}/enter`, { seq }, { timeout: 3000 });
      const delta = Math.max(-10, Math.min(10, Number(req.body.target) - now));
      await bus.publish(`valves/${valve}/set`, { seq, position: now + delta });
      res.status(202).json({ seq, position: now + delta });
    } catch (err) {
      next(err);
    } finally {
      client.eval(UNLOCK, { keys: [keys[0]], arguments: [token] }).catch((err) => logger.warn({ err, valve }, 'unlock'));
    }
  };
};
