import Redis from 'ioredis';
import { v4 as uuid } from 'uuid';

const redis = new Redis({
  host: process.env.REDIS_HOST ?? '127.0.0.1',
  commandTimeout: 800,
  maxRetriesPerRequest: 1,
});

redis.defineCommand('seatPlayers', {
  numberOfKeys: 3,
  lua: `
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
    for i = 3, #ARGV do
      if redis.call('LREM', KEYS[2], 1, ARGV[i]) == 1 then
        redis.call('RPUSH', KEYS[3] .. ARGV[2], ARGV[i])
      end
    end
    return #ARGV - 2`,
});

redis.defineCommand('unlockIf', {
  numberOfKeys: 1,
  lua: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('DEL', KEYS[1])
    end
    return 0`,
});

export class Busy extends Error {}

export async function withLobby(lobby, fn) {
  const key = `mm:{${lobby}}:lock`;
  const token = uuid();

  let reply;
  try {
    reply = await redis.set(key, token, 'PX', 5000, 'NX');
  } catch (err) {
    // timed out: the server may have taken it all the same
    redis.unlockIf(key, token).catch(() => {});
    throw err;
  }
  if (reply !== 'OK') throw new Busy(lobby);

  const lobbyApi = {
    waiting: () => redis.lrange(`mm:{${lobby}}:waiting`, 0, 99),
    async seat(matchId, players) {
      const n = await redis.seatPlayers(key, `mm:{${lobby}}:waiting`, `mm:{${lobby}}:match:`, token, matchId, ...players);
      if (n < 0) throw new Busy(`${lobby}: lost while matching`);
      return n;
    },
  };

  try {
    return await fn(lobbyApi);
  } finally {
    await redis.unlockIf(key, token).catch(() => {});
  }
}

export async function tick(lobby) {
  try {
    return await withLobby(lobby, async (api) => {
      const waiting = await api.waiting();
      let made = 0;
      while (waiting.length >= 4) {
        await api.seat(uuid(), waiting.splice(0, 4));
        made++;
      }
      return made;
    });
  } catch (e) {
    if (e instanceof Busy) return 0;
    throw e;
  }
}
