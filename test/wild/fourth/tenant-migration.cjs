const crypto = require('crypto');
const os = require('os');

const ENTER = `
if redis.call('HSETNX', KEYS[1], 'owner', ARGV[1]) == 0 then
  return redis.call('HGET', KEYS[1], 'host')
end
redis.call('HSET', KEYS[1], 'host', ARGV[3], 'version', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`;

const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
`;

const sha = (lua) => crypto.createHash('sha1').update(lua).digest('hex');
const SHA = new Map([ENTER, LEAVE].map((lua) => [lua, sha(lua)]));

/** EVALSHA first, full script when the server does not know it (restart, SCRIPT FLUSH). */
async function run(redis, lua, keys, args) {
  try {
    return await redis.evalsha(SHA.get(lua), keys.length, ...keys, ...args);
  } catch (err) {
    if (!/NOSCRIPT/.test(String(err && err.message))) throw err;
    return redis.eval(lua, keys.length, ...keys, ...args);
  }
}

/**
 * @param {import('ioredis').Redis} redis
 * @param {{ log?: Pick<Console, 'info'|'warn'>, ttlMs?: number }} [options]
 */
function createMigrationLock(redis, { log = console, ttlMs = 120000 } = {}) {
  return {
    async tryEnter(tenantId, version) {
      const key = `migrate:${tenantId}`;
      const owner = crypto.randomBytes(16).toString('hex');
      const got = await run(redis, ENTER, [key], [owner, ttlMs, os.hostname(), version]);
      if (got !== 1) {
        log.info(`tenant ${tenantId} is being migrated by ${got}`);
        return null;
      }
      let released = false;
      return {
        tenantId,
        async release() {
          if (released) return false;
          released = true;
          const n = await run(redis, LEAVE, [key], [owner]);
          if (n !== 1) log.warn(`migration lock of ${tenantId} was already gone`);
          return n === 1;
        },
      };
    },
  };
}

async function migrateTenants(lock, tenants, version, migrate) {
  const skipped = [];
  for (const tenantId of tenants) {
    const handle = await lock.tryEnter(tenantId, version);
    if (!handle) {
      skipped.push(tenantId);
      continue;
    }
    try {
      await migrate(tenantId, version);
    } finally {
      await handle.release();
    }
  }
  return { skipped };
}

function compareVersions(a, b) {
  const x = a.split('.').map(Number);
  const y = b.split('.').map(Number);
  for (let i = 0; i < 3; i++) if (x[i] !== y[i]) return x[i] - y[i];
  return 0;
}

module.exports = { createMigrationLock, migrateTenants, compareVersions };
