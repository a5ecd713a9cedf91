import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Jobs of one tenant run strictly one after the other. Producers LPUSH into
 * {tenant}:jobs; a worker drains the list while it holds the tenant's lock.
 * Every worker calls this for every tenant each second or so.
 * Jobs may be repeated after a crash, handlers are written for that.
 */

const TTL_MS = 15_000;

const guarded = (body: string) => `if redis.call('get', KEYS[1]) ~= ARGV[1] then return -1 end\n${body}`;

const UNLOCK = guarded(`return redis.call('del', KEYS[1])`);
const EXTEND = guarded(`return redis.call('pexpire', KEYS[1], ARGV[2])`);
// what a worker that died left behind goes to the front of the queue again
const RECOVER = guarded(`
local n = 0
while redis.call('lmove', KEYS[3], KEYS[2], 'LEFT', 'RIGHT') do n = n + 1 end
return n`);
const TAKE = guarded(`return redis.call('lmove', KEYS[2], KEYS[3], 'RIGHT', 'LEFT')`);
const FINISH = guarded(`return redis.call('lrem', KEYS[3], 1, ARGV[2])`);
const FAIL = guarded(`
redis.call('lrem', KEYS[3], 1, ARGV[2])
redis.call('lpush', KEYS[4], ARGV[2])
return 1`);

export type JobHandler = (job: { name: string; data: unknown }, signal: AbortSignal) => Promise<void>;

export async function drainTenant(
  redis: Redis,
  tenant: string,
  handle: JobHandler,
  log: { warn(msg: string, err?: unknown): void },
): Promise<number> {
  const keys = [`{${tenant}}:lock`, `{${tenant}}:jobs`, `{${tenant}}:active`, `{${tenant}}:failed`];
  const token = randomUUID();
  const run = (script: string, ...args: (string | number)[]) =>
    redis.eval(script, keys.length, ...keys, token, ...args);

  const sentAt = performance.now();
  if ((await redis.set(keys[0], token, 'PX', TTL_MS, 'NX')) !== 'OK') return 0;

  const lost = new AbortController();
  let expiry: NodeJS.Timeout | undefined;
  const arm = (from: number) => {
    clearTimeout(expiry);
    expiry = setTimeout(
      () => lost.abort(new Error(`lock of ${tenant} ran out`)),
      Math.max(0, from + TTL_MS - 2_000 - performance.now()),
    );
  };
  let open = true;
  arm(sentAt);
  const beat = setInterval(() => {
    const at = performance.now();
    run(EXTEND, TTL_MS).then(
      (kept) => {
        if (!open || lost.signal.aborted) return;
        if (kept === 1) arm(at);
        else lost.abort(new Error(`lock of ${tenant} was lost`));
      },
      (err) => log.warn(`extend ${tenant}`, err),
    );
  }, TTL_MS / 4);

  let done = 0;
  try {
    await run(RECOVER);
    while (!lost.signal.aborted) {
      const raw = (await run(TAKE)) as string | null | -1;
      if (raw === null || raw === -1) break;
      if (lost.signal.aborted) break; // stays in :active for the next holder

      try {
        await handle(JSON.parse(raw), lost.signal);
      } catch (err) {
        if (lost.signal.aborted) break;
        log.warn(`job of ${tenant} failed`, err);
        await run(FAIL, raw);
        continue;
      }
      if ((await run(FINISH, raw)) === -1) break;
      done++;
    }
    return done;
  } finally {
    open = false;
    clearInterval(beat);
    clearTimeout(expiry);
    await run(UNLOCK).catch((err) => log.warn(`unlock ${tenant}`, err));
  }
}
