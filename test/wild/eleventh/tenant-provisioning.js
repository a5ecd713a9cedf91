const { randomUUID } = require('crypto');
const { createClient } = require('redis');

const TTL_MS = 60000;
const BUDGET_MS = 45000;

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

let connecting;
function redis() {
  if (!connecting) {
    const client = createClient({ url: process.env.REDIS_URL || 'redis://localhost:6379' });
    client.on('error', (err) => console.error('redis', err.message));
    connecting = client.connect();
  }
  return connecting;
}

async function withLock(name, task) {
  const client = await redis();
  const key = `lock:${name}`;
  const token = randomUUID();

  const deadline = performance.now() + BUDGET_MS;
  const ok = await client.set(key, token, { NX: true, PX: TTL_MS });
  if (ok !== 'OK') {
    const err = new Error(`${name} is already in progress`);
    err.code = 'LOCKED';
    throw err;
  }

  const checkTime = () => {
    if (performance.now() > deadline) throw new Error(`${name} took too long`);
  };

  try {
    return task(checkTime);
  } finally {
    await client
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`unlock ${key}: ${err.message}`));
  }
}

/**
 * Creates schema, roles and default data of a new tenant. Every step is skipped if it was
 * done before, so a failed provisioning can be repeated. A step takes up to ten seconds
 * (enforced by the database driver).
 */
async function provisionTenant(tenantId, steps) {
  return withLock(`tenant:${tenantId}`, async (checkTime) => {
    const done = [];
    for (const step of steps) {
      if (await step.isDone(tenantId)) continue;
      checkTime();
      await step.run(tenantId);
      done.push(step.name);
    }
    return done;
  });
}

module.exports = { withLock, provisionTenant, closeRedis: async () => connecting && (await connecting).destroy() };
