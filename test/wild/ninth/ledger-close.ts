import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('ledger redis', err));
let opening: Promise<unknown> | undefined;
const open = () =>
  (opening ??= client.connect().catch((err) => {
    opening = undefined;
    throw err;
  }));

const TTL_MS = 30_000;

// Lock and fencing number in one go. There is one counter for all ledgers.
const LOCK = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

// The ledger remembers the highest number that it has seen and turns away
// everybody with a lower one, so a writer that slept through its lease can't
// undo what its successor did.
const CLAIM = `
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and seen > ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return 1`;

const WRITE = `
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and seen > ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], ARGV[2], ARGV[3])
return 1`;

export interface Posting {
  account: string;
  cents: number;
}

export interface Session {
  read(field: string): Promise<string | null>;
  write(field: string, value: string): Promise<void>;
}

async function fenced(script: string, ledger: string, fence: number, ...args: string[]): Promise<void> {
  const ok = await client.eval(script, { keys: [`ledger:${ledger}`], arguments: [String(fence), ...args] });
  if (Number(ok) !== 1) throw new Error(`ledger ${ledger}: fence ${fence} is out of date`);
}

/** null when somebody else is closing this ledger. */
export async function withLedger<T>(ledger: string, fn: (s: Session) => Promise<T>): Promise<T | null> {
  await open();
  const key = `ledger:${ledger}:lock`;
  const token = randomUUID();
  const fence = Number(await client.eval(LOCK, { keys: [key, 'ledgers:fence'], arguments: [token, String(TTL_MS)] }));
  if (fence === 0) return null;
  try {
    await fenced(CLAIM, ledger, fence);
    return await fn({
      read: (field) => client.hGet(`ledger:${ledger}`, field),
      write: (field, value) => fenced(WRITE, ledger, fence, field, value),
    });
  } finally {
    await client.eval(UNLOCK, { keys: [key], arguments: [token] }).catch((err) => {
      console.warn(`ledger ${ledger}: unlock failed, lock runs out by itself`, err);
    });
  }
}

export async function closeMonth(
  ledger: string,
  month: string,
  previous: string,
  postings: () => Promise<Posting[]>,
): Promise<boolean> {
  const done = await withLedger(ledger, async (s) => {
    if (await s.read(`closed:${month}`)) return true;
    const before = await s.read(`closed:${previous}`);
    const carried = before ? (JSON.parse(before) as { closing: number }).closing : 0;
    const sum = (await postings()).reduce((n, p) => n + p.cents, 0);
    await s.write(`closed:${month}`, JSON.stringify({ opening: carried, closing: carried + sum }));
    return true;
  });
  return done ?? false;
}
