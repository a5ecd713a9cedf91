// First come, first served lock. Tickets wait in a list, the head of the list may take the lock.
import { randomUUID } from 'node:crypto';

const TURN = `
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('LPOP', KEYS[1])
  return 1
end
return 0`;

const DONE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const STAY = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;

export class QueueTimeout extends Error {
  name = 'QueueTimeout';
}

/**
 * @param {import('redis').RedisClientType} client
 * @param {string} name
 * @param {(signal: AbortSignal) => Promise<any>} fn
 */
export async function inTurn(client, name, fn, { ttl = 10_000, timeout = 5_000 } = {}) {
  const queue = `{fair:${name}}:queue`;
  const lock = `{fair:${name}}:lock`;
  const ticket = randomUUID();
  const giveUp = performance.now() + timeout;
  let safeUntil;

  await client.rPush(queue, ticket);

  for (;;) {
    const at = performance.now();
    const mine = await client.eval(TURN, {
      keys: [queue, lock],
      arguments: [ticket, String(ttl)],
    });
    if (Number(mine) === 1) {
      safeUntil = at + ttl * 0.8;
      break;
    }
    if (performance.now() > giveUp) {
      throw new QueueTimeout(`${name}: no turn within ${timeout} ms`);
    }
    await new Promise((r) => setTimeout(r, 40));
  }

  const ac = new AbortController();
  const watch = setInterval(() => {
    if (performance.now() > safeUntil) ac.abort(new Error(`${name}: lease over`));
  }, ttl / 20);
  const stay = setInterval(async () => {
    const at = performance.now();
    try {
      const r = await client.eval(STAY, { keys: [lock], arguments: [ticket, String(ttl)] });
      if (Number(r) === 1) safeUntil = at + ttl * 0.8;
      else ac.abort(new Error(`${name}: lease lost`));
    } catch (err) {
      console.warn(`${name}: ${err.message}`);
    }
  }, ttl / 4);

  try {
    const out = await fn(ac.signal);
    ac.signal.throwIfAborted();
    return out;
  } finally {
    clearInterval(watch);
    clearInterval(stay);
    await client
      .eval(DONE, { keys: [lock], arguments: [ticket] })
      .catch((err) => console.warn(`${name}: ${err.message}`));
  }
}
