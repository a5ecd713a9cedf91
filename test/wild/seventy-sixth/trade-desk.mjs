import { randomUUID } from 'node:crypto';

const LOCK_ALL = `
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1`;

const UNLOCK_ALL = `
local n = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then n = n + redis.call('DEL', KEYS[i]) end
end
return n`;

// KEYS: seller lock, buyer lock, seller bag, buyer bag, receipt
// ARGV: token, item, quantity, gold
const SETTLE = `
if redis.call('EXISTS', KEYS[5]) == 1 then return 'DONE' end
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 'LOCK_LOST'
end
local qty, gold = tonumber(ARGV[3]), tonumber(ARGV[4])
if tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or '0') < qty then return 'NO_ITEM' end
if tonumber(redis.call('HGET', KEYS[4], 'gold') or '0') < gold then return 'NO_GOLD' end
redis.call('HINCRBY', KEYS[3], ARGV[2], -qty)
redis.call('HINCRBY', KEYS[4], ARGV[2], qty)
redis.call('HINCRBY', KEYS[4], 'gold', -gold)
redis.call('HINCRBY', KEYS[3], 'gold', gold)
redis.call('SET', KEYS[5], 1, 'EX', 604800)
return 'DONE'`;

export class TradeError extends Error {
  constructor(code, tradeId) {
    super(`trade ${tradeId}: ${code}`);
    this.code = code;
  }
}

export class TradeDesk {
  #redis;
  #screen;
  #lockMs;

  /**
   * @param redis   a connected node-redis client
   * @param screen  async (offer, signal) => boolean, asks the fraud service
   */
  constructor(redis, screen, { lockMs = 10_000 } = {}) {
    this.#redis = redis;
    this.#screen = screen;
    this.#lockMs = lockMs;
  }

  /**
   * Both players are locked so that they cannot be in two trades at once. May be called again with
   * the same tradeId after an error (clients do so for some minutes): a trade is settled only once.
   */
  async trade({ shard, tradeId, seller, buyer, item, qty, gold }) {
    if (seller === buyer) throw new TradeError('SELF_TRADE', tradeId);
    if (item === 'gold') throw new TradeError('BAD_ITEM', tradeId);
    if (!Number.isSafeInteger(qty) || qty < 1) throw new TradeError('BAD_QUANTITY', tradeId);
    if (!Number.isSafeInteger(gold) || gold < 0) throw new TradeError('BAD_PRICE', tradeId);

    const token = randomUUID();
    const locks = [seller, buyer].map((p) => `{${shard}}:lock:${p}`);
    const bags = [seller, buyer].map((p) => `{${shard}}:bag:${p}`);
    const receipt = `{${shard}}:receipt:${tradeId}`;
    if (await this.#redis.exists(receipt)) return;

    try {
      const got = await this.#redis.eval(LOCK_ALL, {
        keys: locks,
        arguments: [token, String(this.#lockMs)],
      });
      if (got !== 1) throw new TradeError('PLAYER_BUSY', tradeId);

      const ok = await this.#screen({ tradeId, seller, buyer, item, qty, gold }, AbortSignal.timeout(this.#lockMs / 2));
      if (!ok) throw new TradeError('REFUSED', tradeId);

      const outcome = await this.#redis.eval(SETTLE, {
        keys: [...locks, ...bags, receipt],
        arguments: [token, item, String(qty), String(gold)],
      });
      if (outcome !== 'DONE') throw new TradeError(outcome, tradeId);
    } finally {
      await this.#redis
        .eval(UNLOCK_ALL, { keys: locks, arguments: [token] })
        .catch((err) => console.warn(`trade ${tradeId}: locks left to expire (${err.message})`));
    }
  }
}
