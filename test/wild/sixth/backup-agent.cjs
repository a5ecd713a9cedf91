'use strict';
// Backup agent: one container per host, all of them look after the same volumes.
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');
const Redis = require('ioredis');

const run = promisify(execFile);
const redis = new Redis({
  host: process.env.REDIS_HOST || 'redis',
  port: Number(process.env.REDIS_PORT || 6379),
});

const OWNER = `backup-agent-${process.pid}`;
const TTL_SECONDS = 120;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function claim(volume) {
  const ok = await redis.set(`backup:${volume}`, OWNER, 'EX', TTL_SECONDS, 'NX');
  return ok === 'OK';
}

async function renew(volume) {
  return (await redis.eval(RENEW, 1, `backup:${volume}`, OWNER, TTL_SECONDS)) === 1;
}

async function release(volume) {
  return (await redis.eval(RELEASE, 1, `backup:${volume}`, OWNER)) === 1;
}

/**
 * Backs up a volume chunk by chunk. The claim is renewed before each chunk, and a chunk is
 * killed when it takes longer than the claim lasts.
 */
async function backup(volume, chunks) {
  if (!(await claim(volume))) {
    console.log(`${volume}: another agent has it`);
    return false;
  }
  try {
    for (const chunk of chunks) {
      const askedAt = performance.now();
      if (!(await renew(volume))) {
        console.error(`${volume}: claim lost, stopping`);
        return false;
      }
      const left = TTL_SECONDS * 1000 - (performance.now() - askedAt);
      if (left < 1) return false;
      await run('restic', ['backup', chunk], { timeout: Math.floor(left), killSignal: 'SIGKILL' });
    }
    return true;
  } finally {
    await release(volume);
  }
}

module.exports = { claim, renew, release, backup };
