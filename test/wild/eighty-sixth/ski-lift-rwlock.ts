import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const NOW = `local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)\n`;

const READ = `${NOW}
if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then return 0 end
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2] + 1000)
return 1`;

const WRITE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('ZCARD', KEYS[2]) > 0 then
  redis.call('SET', KEYS[3], ARGV[1], 'PX', 1000)
  return 0
end
local fence = math.max(tonumber(redis.call('GET', KEYS[4]) or '0') + 1, now)
redis.call('SET', KEYS[4], string.format('%.0f', fence))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[3])
return fence`;

const LEAVE = `
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

export class LiftLease implements AsyncDisposable {
  constructor(
    readonly fence: number,
    readonly signal: AbortSignal,
    private readonly leave: () => Promise<void>,
  ) {}

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
  }
}

export class LiftLockManager {
  constructor(
    private readonly redis: Redis,
    private readonly ttlMs = 10_000,
    private readonly waitMs = 8_000,
  ) {}

  read(liftId: string): Promise<LiftLease> { return this.enter(READ, liftId); }
  write(liftId: string): Promise<LiftLease> { return this.enter(WRITE, liftId); }

  private async enter(script: string, liftId: string): Promise<LiftLease> {
    const keys = ['writer', 'readers', 'intent', 'fence'].map((part) => `{lift:${liftId}}:${part}`);
    const giveUpAt = performance.now() + this.waitMs;
    for (;;) {
      const token = randomUUID();
      const leave = async () => {
        await this.redis.eval(LEAVE, 2, keys[0], keys[1], token).catch(() => undefined);
      };
      const askedAt = performance.now();
      const fence = Number(await this.redis.eval(script, 4, ...keys, token, this.ttlMs));
      if (fence > 0) {
        const left = Math.floor(askedAt + this.ttlMs - 500 - performance.now());
        if (left > 0) return new LiftLease(fence, AbortSignal.timeout(left), leave);
        await leave();
      }
      if (performance.now() >= giveUpAt) throw new Error(`lift ${liftId} is in use`);
      await sleep(80 + Math.random() * 120);
    }
  }
}

export class LiftOperations {
  constructor(private readonly locks: LiftLockManager, private readonly pool: Pool) {}

  async setMode(liftId: string, mode: 'open' | 'inspection' | 'wind-hold', chairs: number): Promise<void> {
    await using lease = await this.locks.write(liftId);
    const db = await this.pool.connect();
    let broken: Error | undefined;
    try {
      await db.query('BEGIN');
      await db.query("SET LOCAL statement_timeout = '3s'");
      const state = await db.query(
        'UPDATE lift_state SET mode = $2, fence = $3 WHERE lift_id = $1 AND fence < $3', [liftId, mode, lease.fence]);
      if (state.rowCount !== 1) throw new Error(`lift ${liftId} was changed by a later operation`);
      await db.query('UPDATE lift_capacity SET chairs = $2 WHERE lift_id = $1', [liftId, chairs]);
      lease.signal.throwIfAborted();
      await db.query('COMMIT');
    } catch (err) {
      await db.query('ROLLBACK').catch((e: Error) => { broken = e; });
      throw err;
    } finally {
      db.release(broken);
    }
  }

  async board(liftId: string): Promise<{ mode: string; chairs: number; queue: number }> {
    await using lease = await this.locks.read(liftId);
    const state = 'SELECT mode, fence FROM lift_state WHERE lift_id = $1';
    const before = (await this.pool.query(state, [liftId])).rows[0];
    const { chairs } = (await this.pool.query('SELECT chairs FROM lift_capacity WHERE lift_id = $1', [liftId])).rows[0];
    const queue = Number(await this.pool.query('SELECT count(*) FROM lift_queue WHERE lift_id = $1', [liftId])
      .then((r) => r.rows[0].count));
    const after = (await this.pool.query(state, [liftId])).rows[0];
    if (lease.signal.aborted || before.fence !== after.fence) throw new Error(`lift ${liftId} changed while reading`);
    return { mode: before.mode, chairs, queue };
  }
}
