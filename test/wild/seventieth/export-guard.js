const Client = require('ioredis');
const Redlock = require('redlock4');

const client = new Client(process.env.REDIS_URL || 'redis://127.0.0.1:6379');
client.on('error', (e) => console.error('redis', e.message));

const redlock = new Redlock([client], {
  driftFactor: 0.01,
  retryCount: 0,
});
redlock.on('clientError', (e) => console.error('redlock', e.message));

const config = {
  lockTtl: Number(process.env.EXPORT_LOCK_SECONDS || 300),
  prefix: process.env.EXPORT_LOCK_PREFIX || 'export',
};

/**
 * One export per tenant at a time. `produce(signal)` must finish, or stop on the
 * signal, within EXPORT_LOCK_SECONDS.
 *
 * @returns {Promise<{ status: 'done' | 'busy', rows?: number }>}
 */
async function exportTenant(tenantId, produce) {
  const resource = `${config.prefix}:${tenantId}`;

  let lock;
  try {
    lock = await redlock.lock(resource, config.lockTtl);
  } catch (err) {
    if (err.name === 'LockError') return { status: 'busy' };
    throw err;
  }

  const ac = new AbortController();
  const limit = setTimeout(
    () => ac.abort(new Error(`export of ${tenantId} took too long`)),
    config.lockTtl * 1000 * 0.9,
  );

  try {
    const rows = await produce(ac.signal);
    return { status: 'done', rows };
  } finally {
    clearTimeout(limit);
    try {
      await lock.unlock();
    } catch (err) {
      console.warn(`unlock ${resource}: ${err.message}`);
    }
  }
}

async function shutdown() {
  await client.quit();
}

module.exports = { exportTenant, shutdown };
