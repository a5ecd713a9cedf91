import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({
  url: process.env.REDIS_URL || 'redis://localhost:6379',
  commandOptions: { timeout: 1500 },
});
client.on('error', (err) => console.log('Redis Client Error', err));
const ready = client.connect();

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

/**
 * Acquire the lock of a job
 * @param {string} jobName
 * @param {number} ttlSeconds
 * @returns {Promise<string|null>} token to release with
 */
export async function acquireJobLock(jobName, ttlSeconds = 30) {
  await ready;
  const token = randomUUID();
  const created = await client.setNX(`job-lock:${jobName}`, token);
  if (!created) {
    return null;
  }
  await client.expire(`job-lock:${jobName}`, ttlSeconds);
  return token;
}

/**
 * Release the lock of a job
 */
export async function releaseJobLock(jobName, token) {
  await ready;
  await client.eval(RELEASE_SCRIPT, { keys: [`job-lock:${jobName}`], arguments: [token] });
}
