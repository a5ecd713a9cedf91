import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const TTL = 24_000;
const RENEW_EVERY = 6_000;
const SAFETY = 4_000;

export class TreasuryBusy extends Error {}
export class TreasuryLockLost extends Error {}

/**
 * @param {import('ioredis').Redis} redis
 * @param {{ priceOf(item: string): Promise<number>, deliver(order: object): Promise<void> }} auctionHouse
 */
export function guildTreasury(redis, auctionHouse) {
  redis.defineCommand('treasuryRenew', {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
  });
  redis.defineCommand('treasuryFree', {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  });
  // Gold moves only while the lock still carries our token. -1: lock gone, -2: not enough gold.
  // ioredis sends a command again when the connection broke before its reply: an order pays once.
  redis.defineCommand('treasurySpend', {
    numberOfKeys: 3,
    lua: `
      local gold = tonumber(redis.call('GET', KEYS[2]) or '0')
      if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then return gold end
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
      local cost = tonumber(ARGV[2])
      if gold < cost then return -2 end
      redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
      return redis.call('DECRBY', KEYS[2], cost)`,
  });

  // Members of one guild that hit this process line up here, so the lock sees one contender per process.
  const tails = new Map();
  function inLine(guild, task) {
    const run = (tails.get(guild) ?? Promise.resolve()).then(task);
    const tail = run.then(() => {}, () => {}).then(() => {
      if (tails.get(guild) === tail) tails.delete(guild);
    });
    tails.set(guild, tail);
    return run;
  }

  function keepAlive(key, token, acquiredAt) {
    const lost = new AbortController();
    const stop = new AbortController();
    let validUntil = acquiredAt + TTL - SAFETY;

    const check = () => {
      if (!lost.signal.aborted && performance.now() > validUntil) lost.abort(new TreasuryLockLost(key));
      lost.signal.throwIfAborted();
    };

    const loop = (async () => {
      while (!lost.signal.aborted) {
        try {
          await sleep(RENEW_EVERY, undefined, { signal: stop.signal });
        } catch {
          return;
        }
        const sentAt = performance.now();
        let renewed;
        try {
          renewed = await redis.treasuryRenew(key, token, TTL);
        } catch {
          // No answer is not a verdict yet: what has been granted so far holds until validUntil.
          if (performance.now() < validUntil) continue;
          renewed = 0;
        }
        if (renewed === 1) validUntil = sentAt + TTL - SAFETY;
        else lost.abort(new TreasuryLockLost(key));
      }
    })();

    return { check, stop: () => { stop.abort(); return loop; } };
  }

  async function withTreasury(guild, work) {
    const key = `guild:{${guild}}:treasury:lock`;
    const token = randomUUID();
    let acquiredAt;
    for (let attempt = 0; ; attempt++) {
      acquiredAt = performance.now();
      if ((await redis.set(key, token, 'PX', TTL, 'NX')) === 'OK') break;
      if (attempt === 20) throw new TreasuryBusy(guild);
      await sleep(100 + Math.random() * 300);
    }
    const alive = keepAlive(key, token, acquiredAt);
    try {
      alive.check();
      return await work({ key, token, check: alive.check });
    } finally {
      await alive.stop();
      await redis.treasuryFree(key, token).catch((e) => console.warn(`treasury ${guild}: ${e.message}`));
    }
  }

  return {
    buy: (guild, member, items) => inLine(guild, () => withTreasury(guild, async (lock) => {
      const lines = [];
      for (const item of items) {
        lock.check();
        lines.push({ item, price: await auctionHouse.priceOf(item) });
      }
      const cost = lines.reduce((sum, l) => sum + l.price, 0);
      const order = { id: randomUUID(), guild, member, lines, cost };
      lock.check();
      const left = await redis.treasurySpend(
        lock.key, `guild:{${guild}}:gold`, `guild:{${guild}}:orders`,
        lock.token, cost, order.id, JSON.stringify(order),
      );
      if (left === -1) throw new TreasuryLockLost(lock.key);
      if (left === -2) return { bought: false, reason: 'not enough gold' };
      // The order hash is the truth; a courier sweeps it for what could not be delivered here.
      await auctionHouse.deliver(order).catch((e) => console.warn(`order ${order.id}: ${e.message}`));
      return { bought: true, left, order: order.id };
    })),
    balance: async (guild) => Number((await redis.get(`guild:{${guild}}:gold`)) ?? 0),
  };
}
