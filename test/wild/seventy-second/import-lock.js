import crypto from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis({
  host: process.env.REDIS_HOST || '127.0.0.1',
  port: Number(process.env.REDIS_PORT || 6379),
  keyPrefix: `${process.env.APP_NAME || 'shop'}:`,
});

// imports of the big catalogues take some minutes
const TTL = 15 * 60 * 1000;

const unlockScript = `
  if redis.call('get', ARGV[1]) == ARGV[2] then
    return redis.call('del', ARGV[1])
  end
  return 0
`;

/**
 * Take the import lock for a tenant.
 * @param {string} tenant
 * @returns {Promise<null | (() => Promise<void>)>} the function to unlock with, or null if locked
 */
export async function lockImport(tenant) {
  const key = `import:${tenant}:lock`;
  const token = crypto.randomBytes(16).toString('hex');

  const ok = await redis.set(key, token, 'PX', TTL, 'NX');
  if (ok !== 'OK') return null;

  return async () => {
    const removed = await redis.eval(unlockScript, 0, key, token);
    if (removed === 0) {
      console.debug('[import] lock of %s was not ours any more', tenant);
    }
  };
}

export async function runImport(tenant, importer) {
  const unlock = await lockImport(tenant);
  if (!unlock) {
    return { started: false, reason: 'another import is running' };
  }

  // the importer stops by itself at the deadline
  const deadline = AbortSignal.timeout(TTL - 60 * 1000);
  try {
    const rows = await importer(tenant, deadline);
    return { started: true, rows };
  } finally {
    await unlock().catch((err) => console.error('[import] unlock', err));
  }
}
