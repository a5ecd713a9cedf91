import { randomUUID } from 'node:crypto';
import express from 'express';

const LEASE_MS = 60_000;

// KEYS: lease hash, fence counter.  ARGV: token, user id, ttl, highest fence the database has seen
const ACQUIRE = `
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {0, redis.call('HGET', KEYS[1], 'user')}
end
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
local floor = tonumber(ARGV[4])
if fence < floor then fence = floor end
fence = fence + 1
redis.call('SET', KEYS[2], fence)
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'user', ARGV[2], 'fence', fence)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1, tostring(fence)}
`;

const RENEW = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;

const RELEASE = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

const leaseKey = (id) => `doc:{${id}}:lease`;
const fenceKey = (id) => `doc:{${id}}:fence`;

/**
 * Editing leases for the contract editor. The browser renews every 20 seconds while the
 * tab is open; a closed laptop loses the document after a minute.
 *
 * @param {{ redis: import('redis').RedisClientType, db: import('pg').Pool }} deps
 */
export function documentLeaseRouter({ redis, db }) {
  const router = express.Router();
  router.use(express.json({ limit: '4mb' }));

  const wrap = (fn) => (req, res, next) => fn(req, res).catch(next);

  router.post('/documents/:id/lease', wrap(async (req, res) => {
    const { id } = req.params;
    const { rows } = await db.query(
      'SELECT lease_fence FROM documents WHERE id = $1', [id]);
    if (rows.length === 0) return res.sendStatus(404);

    const token = randomUUID();
    const [ok, info] = await redis.eval(ACQUIRE, {
      keys: [leaseKey(id), fenceKey(id)],
      arguments: [token, req.user.id, String(LEASE_MS), String(rows[0].lease_fence)],
    });
    if (ok !== 1) return res.status(423).json({ error: 'locked', by: info });

    // From here on a late save of the previous editor is refused by the database too.
    const drop = () => redis.eval(RELEASE, { keys: [leaseKey(id)], arguments: [token] }).catch(() => 0);
    let doc;
    try {
      const claimed = await db.query(
        `UPDATE documents SET lease_fence = $2 WHERE id = $1 AND lease_fence < $2
         RETURNING body, version`,
        [id, info]);
      doc = claimed.rows[0];
    } catch (err) {
      await drop();
      throw err;
    }
    if (!doc) {
      await drop();
      return res.status(423).json({ error: 'locked' });
    }
    return res.status(201).json({ token, ttl: LEASE_MS, ...doc });
  }));

  router.put('/documents/:id/lease', wrap(async (req, res) => {
    const ok = await redis.eval(RENEW, {
      keys: [leaseKey(req.params.id)],
      arguments: [String(req.get('x-lease-token') ?? ''), String(LEASE_MS)],
    });
    return ok === 1 ? res.json({ ttl: LEASE_MS }) : res.status(410).json({ error: 'lease_lost' });
  }));

  router.delete('/documents/:id/lease', wrap(async (req, res) => {
    await redis.eval(RELEASE, {
      keys: [leaseKey(req.params.id)],
      arguments: [String(req.get('x-lease-token') ?? '')],
    });
    return res.sendStatus(204);
  }));

  router.put('/documents/:id', wrap(async (req, res) => {
    const { id } = req.params;
    const { body, version } = req.body ?? {};
    if (typeof body !== 'string' || !Number.isInteger(version)) return res.sendStatus(400);

    const [token, fence] = await redis.hmGet(leaseKey(id), ['token', 'fence']);
    if (!token || token !== req.get('x-lease-token')) {
      return res.status(410).json({ error: 'lease_lost' });
    }
    const saved = await db.query(
      `UPDATE documents
          SET body = $2, version = version + 1,
              updated_by = $4, updated_at = now()
        WHERE id = $1 AND version = $5 AND lease_fence = $3
    RETURNING version`,
      [id, body, fence, req.user.id, version],
    );
    if (saved.rowCount === 0) return res.status(409).json({ error: 'stale_version' });
    return res.json({ version: saved.rows[0].version });
  }));

  return router;
}
