import { randomBytes } from 'node:crypto';
import { createClient, WatchError } from 'redis';

interface DeskOptions {
  url: string;
  /** How long an editor may keep a manuscript without touching it. */
  checkoutSeconds?: number;
  prefix?: string;
}

interface Claim {
  manuscriptId: string;
  editor: string;
  token: string;
}

type CheckinResult = { status: 'saved'; revision: number } | { status: 'claim-lost' };

const TOUCH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Check-out / check-in for manuscripts. A check-out outlives the request that made it: the editor
 * works offline, the browser calls touch() every minute, and check-in hands the manuscript back.
 */
export async function createEditorialDesk({ url, checkoutSeconds = 1800, prefix = 'ms' }: DeskOptions) {
  const shared = createClient({ url });
  shared.on('error', (e) => console.error('[desk] redis', e.message));
  await shared.connect();

  const claimKey = (id: string) => `${prefix}:{${id}}:claim`;
  const docKey = (id: string) => `${prefix}:{${id}}:doc`;
  const historyKey = (id: string) => `${prefix}:{${id}}:history`;

  // One connection per check-in, never reconnecting, so that what it watches is nobody else's.
  async function onOwnConnection<T>(use: (conn: typeof shared) => Promise<T>): Promise<T> {
    const conn = createClient({ url, socket: { reconnectStrategy: false } }) as typeof shared;
    conn.on('error', (e) => console.error('[desk] check-in connection', e.message));
    await conn.connect();
    try {
      return await use(conn);
    } finally {
      if (conn.isOpen) await conn.disconnect();
    }
  }

  async function checkout(manuscriptId: string, editor: string): Promise<Claim | null> {
    const token = `${editor}/${randomBytes(12).toString('hex')}`;
    const ok = await shared.set(claimKey(manuscriptId), token, { NX: true, EX: checkoutSeconds });
    return ok === 'OK' ? { manuscriptId, editor, token } : null;
  }

  async function touch(claim: Claim): Promise<boolean> {
    const extended = await shared.eval(TOUCH, {
      keys: [claimKey(claim.manuscriptId)],
      arguments: [claim.token, String(checkoutSeconds)],
    });
    return extended === 1;
  }

  const discard = async (claim: Claim): Promise<boolean> =>
    (await shared.eval(DROP, { keys: [claimKey(claim.manuscriptId)], arguments: [claim.token] })) === 1;

  /** Resolves to null when something moved between reading and writing. */
  function tryCheckin(claim: Claim, body: string): Promise<CheckinResult | null> {
    const { manuscriptId: id, token, editor } = claim;
    return onOwnConnection(async (conn): Promise<CheckinResult | null> => {
      await conn.watch([claimKey(id), docKey(id)]);
      const holder = await conn.get(claimKey(id));
      const doc = await conn.hGetAll(docKey(id));
      const revision = Number(doc.revision ?? 0);

      if (holder !== token) {
        // A browser that never saw the answer to its first attempt sends the same claim again.
        return doc.savedBy === token ? { status: 'saved', revision } : { status: 'claim-lost' };
      }

      const next = revision + 1;
      try {
        await conn
          .multi()
          .hSet(docKey(id), { body, revision: String(next), savedBy: token })
          .rPush(historyKey(id), JSON.stringify({ revision: next, editor, length: body.length }))
          .del(claimKey(id))
          .exec();
      } catch (err) {
        if (!(err instanceof WatchError)) throw err;
        // touch() from another tab also trips the watch, as does the claim running out.
        return null;
      }
      return { status: 'saved', revision: next };
    });
  }

  async function checkin(claim: Claim, body: string): Promise<CheckinResult> {
    for (let round = 0; round < 6; round++) {
      const result = await tryCheckin(claim, body);
      if (result) return result;
    }
    throw new Error(`check-in of ${claim.manuscriptId} kept colliding, try again`);
  }

  return { checkout, touch, discard, checkin, close: () => shared.quit() };
}
