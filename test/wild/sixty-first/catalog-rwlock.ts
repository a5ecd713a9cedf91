import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { MongoClient } from 'mongodb';
import pino from 'pino';

const log = pino({ name: 'catalog-rwlock' });
const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
const mongo = new MongoClient(process.env.MONGO_URL!);

const TTL_MS = 60_000;
const MARGIN_MS = 10_000;
const OP_TIMEOUT_MS = 5_000;

const NOW = `
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

// KEYS[1] writer (string), KEYS[2] readers (zset scored by expiry)
const SCRIPTS = {
  read: `${NOW}
if redis.call('exists', KEYS[1]) == '1' then return 0 end
redis.call('zremrangebyscore', KEYS[2], '-inf', now)
redis.call('zadd', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('pexpire', KEYS[2], ARGV[2])
return 1`,
  write: `${NOW}
redis.call('zremrangebyscore', KEYS[2], '-inf', now)
if redis.call('zcard', KEYS[2]) > 0 then return 0 end
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`,
  endRead: `return redis.call('zrem', KEYS[2], ARGV[1])`,
  endWrite: `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`,
};

export class CatalogBusyError extends Error {}

async function withAccess<T>(
  mode: 'read' | 'write',
  market: string,
  waitMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const keys = [`{catalog:${market}}:writer`, `{catalog:${market}}:readers`];
  const token = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  let sentAt = performance.now();
  while ((await redis.eval(SCRIPTS[mode], 2, ...keys, token, TTL_MS)) !== 1) {
    if (performance.now() >= giveUpAt) throw new CatalogBusyError(`catalog ${market} is busy`);
    await sleep(100 + Math.random() * 150);
    sentAt = performance.now();
  }

  const left = sentAt + TTL_MS - MARGIN_MS - performance.now();
  const signal = AbortSignal.timeout(Math.max(0, Math.floor(left)));
  try {
    return await work(signal);
  } finally {
    const script = mode === 'read' ? SCRIPTS.endRead : SCRIPTS.endWrite;
    await redis.eval(script, 2, ...keys, token).catch((err) => log.warn({ err, market, mode }, 'release failed'));
  }
}

interface Title {
  _id: string;
  market: string;
  name: string;
  tiers: string[];
  availableFrom: Date;
  availableTo: Date;
}

const titles = () => mongo.db('catalog').collection<Title>('titles');

export async function publishCatalog(market: string, next: Title[]): Promise<void> {
  await withAccess('write', market, 20_000, async (signal) => {
    for (let i = 0; i < next.length; i += 200) {
      signal.throwIfAborted();
      const ops = next.slice(i, i + 200).map((title) => ({
        replaceOne: { filter: { _id: title._id }, replacement: title, upsert: true },
      }));
      await titles().bulkWrite(ops, { ordered: false, timeoutMS: OP_TIMEOUT_MS });
    }
    signal.throwIfAborted();
    await titles().deleteMany({ market, _id: { $nin: next.map((t) => t._id) } }, { timeoutMS: OP_TIMEOUT_MS });
    log.info({ market, titles: next.length }, 'catalog published');
  });
}

export async function snapshotForPartners(market: string): Promise<Title[]> {
  return withAccess('read', market, 10_000, async (signal) => {
    const result: Title[] = [];
    for await (const title of titles().find({ market }, { timeoutMS: OP_TIMEOUT_MS }).sort({ _id: 1 })) {
      signal.throwIfAborted();
      result.push(title);
    }
    return result;
  });
}
