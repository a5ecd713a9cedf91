'use strict';

const { execFile } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { rename, rm } = require('node:fs/promises');
const path = require('node:path');
const { promisify } = require('node:util');
const Redis = require('ioredis');

const run = promisify(execFile);

const LOCK_SECONDS = 60 * 60;
const DUMP_LIMIT_MS = 45 * 60 * 1000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

class BackupLock {
  static #redis;

  static get redis() {
    BackupLock.#redis ??= new Redis(process.env.REDIS_URL);
    return BackupLock.#redis;
  }

  static key(database) {
    return `backup:${database}:lock`;
  }

  static async acquire(database) {
    const token = randomUUID();
    const created = await BackupLock.redis.setnx(BackupLock.key(database), token);
    if (created !== 1) return null;
    await BackupLock.redis.expire(BackupLock.key(database), LOCK_SECONDS);
    return token;
  }

  static async release(database, token) {
    const deleted = await BackupLock.redis.eval(RELEASE, 1, BackupLock.key(database), token);
    return deleted === 1;
  }
}

async function dump(database, dir) {
  const day = new Date().toISOString().slice(0, 10);
  const target = path.join(dir, `${database}-${day}.dump`);
  const partial = `${target}.${randomUUID()}.partial`;
  try {
    await run('pg_dump', ['--format=custom', `--file=${partial}`, database], {
      timeout: DUMP_LIMIT_MS,
      killSignal: 'SIGKILL',
    });
    await rename(partial, target);
    return target;
  } finally {
    await rm(partial, { force: true });
  }
}

async function backup(database, dir = process.env.BACKUP_DIR ?? '/var/backups') {
  const token = await BackupLock.acquire(database);
  if (token === null) {
    console.log(`backup of ${database} is running on another host`);
    return null;
  }
  try {
    return await dump(database, dir);
  } finally {
    await BackupLock.release(database, token).catch((err) => {
      console.warn(`could not release the backup lock of ${database}: ${err.message}`);
    });
  }
}

module.exports = { backup, BackupLock };

if (require.main === module) {
  backup(process.argv[2] ?? 'app')
    .then((file) => file && console.log(`wrote ${file}`))
    .catch((err) => {
      console.error(err);
      process.exitCode = 1;
    })
    .finally(() => BackupLock.redis.quit());
}
