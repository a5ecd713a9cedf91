import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'guild-bank' });

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 1_000,
  statement_timeout: 2_000,
});

const OWNER = `${hostname()}:${process.pid}`;
const TTL_MS = 30_000;
const WAIT_MS = 5_000;
const WORK_BUDGET_MS = 20_000;

// Hash of { owner, depth }; the owner may enter again.
const ENTER = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'depth', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('HINCRBY', KEYS[1], 'depth', -1) <= 0 then
  redis.call('DEL', KEYS[1])
end
return 1`;

export class GuildBusyError extends Error {}

async function withGuild<T>(guildId: string, work: () => Promise<T>): Promise<T> {
  const key = `guild-bank:${guildId}`;
  const giveUpAt = performance.now() + WAIT_MS;
  let sentAt = performance.now();
  while ((await redis.eval(ENTER, 1, key, OWNER, TTL_MS)) !== 1) {
    if (performance.now() > giveUpAt) throw new GuildBusyError(`bank of guild ${guildId} is busy`);
    await sleep(50 + Math.random() * 100);
    sentAt = performance.now();
  }
  try {
    if (performance.now() - sentAt > TTL_MS - WORK_BUDGET_MS) {
      throw new GuildBusyError(`bank of guild ${guildId} answered too late`);
    }
    return await work();
  } finally {
    await redis.eval(LEAVE, 1, key, OWNER).catch((err) => log.warn({ err, key }, 'could not leave lock'));
  }
}

async function readGold(guildId: string): Promise<number> {
  const { rows } = await pool.query<{ gold: number }>('SELECT gold FROM guild_banks WHERE guild_id = $1', [guildId]);
  if (!rows[0]) throw new Error(`guild ${guildId} has no bank`);
  return rows[0].gold;
}

async function writeGold(guildId: string, gold: number): Promise<void> {
  await pool.query('UPDATE guild_banks SET gold = $2, changed_at = now() WHERE guild_id = $1', [guildId, gold]);
}

export async function deposit(guildId: string, playerId: string, amount: number): Promise<number> {
  return withGuild(guildId, async () => {
    const gold = (await readGold(guildId)) + amount;
    await writeGold(guildId, gold);
    log.info({ guildId, playerId, amount, gold }, 'deposit');
    return gold;
  });
}

export async function withdraw(guildId: string, playerId: string, amount: number): Promise<number> {
  return withGuild(guildId, async () => {
    const gold = (await readGold(guildId)) - amount;
    if (gold < 0) throw new RangeError('the guild bank does not hold that much gold');
    await writeGold(guildId, gold);
    log.info({ guildId, playerId, amount, gold }, 'withdrawal');
    return gold;
  });
}

export async function buyUpgrade(guildId: string, playerId: string, upgrade: string, price: number): Promise<number> {
  return withGuild(guildId, async () => {
    const { rowCount } = await pool.query('SELECT 1 FROM guild_upgrades WHERE guild_id = $1 AND upgrade = $2', [
      guildId,
      upgrade,
    ]);
    if (rowCount) return readGold(guildId);
    const gold = await withdraw(guildId, playerId, price);
    await pool.query('INSERT INTO guild_upgrades (guild_id, upgrade, bought_by) VALUES ($1, $2, $3)', [
      guildId,
      upgrade,
      playerId,
    ]);
    return gold;
  });
}
