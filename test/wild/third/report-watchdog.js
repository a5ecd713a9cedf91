import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';
const EXTEND =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end';

const TTL = 9000;

let client;

export async function init(url = process.env.REDIS_URL) {
  client = createClient({ url });
  client.on('error', (err) => console.error(err.message));
  await client.connect();
}

/** Reports can take minutes, the watchdog keeps the lock alive as long as they are written. */
export async function withReportLock(report, fn) {
  const key = `report:${report}`;
  const token = randomUUID();
  const ok = await client.set(key, token, { NX: true, PX: TTL });
  if (ok !== 'OK') throw new Error(`${report} is being written`);

  let watchdog;
  const schedule = () => {
    watchdog = setTimeout(async () => {
      try {
        await client.eval(EXTEND, { keys: [key], arguments: [token, String(TTL)] });
        schedule();
      } catch (err) {
        console.error(`could not extend ${key}`, err);
      }
    }, TTL / 3);
  };
  schedule();

  try {
    return await fn();
  } finally {
    clearTimeout(watchdog);
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
  }
}
