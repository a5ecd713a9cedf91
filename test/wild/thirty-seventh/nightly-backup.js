'use strict';

const { execFile } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { promisify } = require('node:util');
const { rename } = require('node:fs/promises');
const cron = require('node-cron');
const Redis = require('ioredis');

const run = promisify(execFile);
const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');

const LOCK_KEY = 'lock:nightly-backup';
const LOCK_TTL_SECONDS = 2 * 60 * 60;
const DUMP_TIMEOUT_MS = 90 * 60 * 1000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

async function acquireLock(token) {
  const acquired = await redis.setnx(LOCK_KEY, token);
  if (acquired !== 1) {
    return false;
  }
  await redis.expire(LOCK_KEY, LOCK_TTL_SECONDS);
  return true;
}

async function releaseLock(token) {
  await redis.eval(UNLOCK, 1, LOCK_KEY, token);
}

async function dumpDatabase(day) {
  const tmp = `/backups/.${day}.dump.part`;
  const target = `/backups/${day}.dump`;
  await run('pg_dump', ['--format=custom', `--file=${tmp}`, process.env.DATABASE_URL], {
    timeout: DUMP_TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  await rename(tmp, target);
  return target;
}

async function nightlyBackup() {
  const token = randomUUID();
  if (!(await acquireLock(token))) {
    console.log('backup is running on another node, skipping');
    return;
  }

  try {
    const day = new Date().toISOString().slice(0, 10);
    const file = await dumpDatabase(day);
    console.log(`backup written to ${file}`);
  } finally {
    await releaseLock(token).catch((err) => console.warn('unlock failed', err));
  }
}

// every node of the cluster runs this
cron.schedule('0 2 * * *', () => {
  nightlyBackup().catch((err) => console.error('backup failed', err));
});
