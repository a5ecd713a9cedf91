import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

/**
 * Guild treasury of the game servers. Methods that touch the gold of a guild are marked
 * with @guarded; they may call each other (craft -> spend), so the lock can be entered
 * again by the one who has it.
 */
const TTL_MS = 30_000;
const WAIT_MS = 10_000;
const OWNER = `${hostname()}:${process.pid}`;

const ENTER = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
local depth = redis.call('HINCRBY', KEYS[1], 'depth', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return depth`;

const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return -1
end
local depth = redis.call('HINCRBY', KEYS[1], 'depth', -1)
if depth <= 0 then
  redis.call('DEL', KEYS[1])
  return 0
end
return depth`;

export interface GuildDb {
  loadGold(guildId: string): Promise<number>;
  saveGold(guildId: string, gold: number): Promise<void>;
  addItem(guildId: string, item: string): Promise<void>;
}

export class TreasuryBusyError extends Error {}
export class NotEnoughGoldError extends Error {}

interface Guardable {
  readonly redis: RedisClient;
}

type GuildMethod<This, Rest extends unknown[], R> = (this: This, guildId: string, ...rest: Rest) => Promise<R>;

function guarded<This extends Guardable, Rest extends unknown[], R>(
  method: GuildMethod<This, Rest, R>,
  context: ClassMethodDecoratorContext<This, GuildMethod<This, Rest, R>>,
): GuildMethod<This, Rest, R> {
  return async function (this: This, guildId: string, ...rest: Rest): Promise<R> {
    const key = `guild:${guildId}:treasury-lock`;
    const giveUpAt = performance.now() + WAIT_MS;

    while (Number(await this.redis.eval(ENTER, { keys: [key], arguments: [OWNER, String(TTL_MS)] })) < 1) {
      if (performance.now() > giveUpAt) {
        throw new TreasuryBusyError(`${String(context.name)}: treasury of guild ${guildId} is busy`);
      }
      await sleep(20 + Math.random() * 40);
    }

    try {
      return await method.call(this, guildId, ...rest);
    } finally {
      await this.redis.eval(LEAVE, { keys: [key], arguments: [OWNER] }).catch((err: Error) => {
        console.warn(`[treasury] ${key} left to expire: ${err.message}`);
      });
    }
  };
}

export class GuildTreasury implements Guardable {
  constructor(
    readonly redis: RedisClient,
    private readonly db: GuildDb,
  ) {}

  @guarded
  async deposit(guildId: string, gold: number): Promise<number> {
    const total = (await this.db.loadGold(guildId)) + gold;
    await this.db.saveGold(guildId, total);
    return total;
  }

  @guarded
  async spend(guildId: string, gold: number): Promise<number> {
    const balance = await this.db.loadGold(guildId);
    if (balance < gold) throw new NotEnoughGoldError(`guild ${guildId} has ${balance} gold, needs ${gold}`);
    await this.db.saveGold(guildId, balance - gold);
    return balance - gold;
  }

  @guarded
  async craft(guildId: string, item: string, price: number): Promise<number> {
    const left = await this.spend(guildId, price);
    await this.db.addItem(guildId, item);
    return left;
  }
}
