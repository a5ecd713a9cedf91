import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

// First come, first served. KEYS: lock, queue. ARGV: ticket, ttl
const ENTER = `
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then
  return 0
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
redis.call('LPOP', KEYS[2])
return 1
`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;

export class LockTimeout extends Error {}

/**
 * Creates a fair lock: the first to ask gets it first.
 *
 * @param client a connected node-redis client
 */
export const fairLock = (client, name, { ttl = 10_000, poll = 50 } = {}) => {
  const lockKey = `fair:{${name}}:lock`;
  const queueKey = `fair:{${name}}:queue`;

  const enter = async (timeout) => {
    const ticket = randomUUID();
    const deadline = Date.now() + timeout;

    await client.rPush(queueKey, ticket);

    while (Date.now() < deadline) {
      const mine = await client.eval(ENTER, {
        keys: [lockKey, queueKey],
        arguments: [ticket, String(ttl)],
      });
      if (mine === 1) return ticket;
      await sleep(poll);
    }

    throw new LockTimeout(`${name}: not my turn after ${timeout} ms`);
  };

  const leave = (ticket) => client.eval(LEAVE, { keys: [lockKey], arguments: [ticket] });

  const renew = async (ticket) => {
    const ok = await client.eval(RENEW, { keys: [lockKey], arguments: [ticket, String(ttl)] });
    return ok === 1;
  };

  const run = async (fn, { timeout = 5_000 } = {}) => {
    const ticket = await enter(timeout);
    const lost = new AbortController();
    const timer = setInterval(() => {
      renew(ticket)
        .then((ok) => ok || lost.abort(new Error(`${name}: lock lost`)))
        .catch((err) => lost.abort(err));
    }, ttl / 3);

    try {
      return await fn(lost.signal);
    } finally {
      clearInterval(timer);
      await leave(ticket).catch(() => {});
    }
  };

  return { run };
};
