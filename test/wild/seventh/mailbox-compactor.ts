import { createClient } from 'redis';
import crypto from 'node:crypto';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (e) => console.error('[redis]', e.message));
await client.connect();

const CLAIM = `
  local cur = redis.call('GET', KEYS[1])
  if cur then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
`;

// the index pointer only moves while the claim is ours
const COMMIT = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[2], 'segment', ARGV[2], 'bytes', ARGV[3])
  return 1
`;

const DROP = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) return 1 end
  return 0
`;

export interface Segment { name: string; bytes: number }

/** Folds the small segments of a mailbox into one. Segment files are write-once, so only the pointer matters. */
export async function compactMailbox(
  mailbox: string,
  fold: (from: string | null) => Promise<Segment>,
): Promise<'done' | 'busy' | 'overtaken'> {
  const claimKey = `{mbox:${mailbox}}:claim`;
  const indexKey = `{mbox:${mailbox}}:index`;
  const claim = crypto.randomBytes(18).toString('base64url');

  const got = await client.eval(CLAIM, { keys: [claimKey], arguments: [claim, '120000'] });
  if (got !== 1) return 'busy';

  try {
    const current = await client.hGet(indexKey, 'segment');
    const next = await fold(current ?? null);
    const moved = await client.eval(COMMIT, {
      keys: [claimKey, indexKey],
      arguments: [claim, next.name, String(next.bytes)],
    });
    return moved === 1 ? 'done' : 'overtaken';
  } finally {
    try {
      await client.eval(DROP, { keys: [claimKey], arguments: [claim] });
    } catch (e) {
      console.warn('claim on %s left to its ttl: %s', mailbox, (e as Error).message);
    }
  }
}
