import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type Redis from 'ioredis';

/*
 * Many readers or one writer.
 *   {name}:w     token of the writer
 *   {name}:r     sorted set, reader token -> end of its lease (server clock)
 *   {name}:next  a writer is waiting, new readers stand back for a second
 * No upgrade: asking for 'write' inside 'read' waits until it times out.
 */

type Mode = 'read' | 'write';

const CLEAN = `
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('zremrangebyscore', KEYS[2], '-inf', now)
local ttl = tonumber(ARGV[2])
`;

const STAMP = `
redis.call('zadd', KEYS[2], now + ttl, ARGV[1])
if redis.call('pttl', KEYS[2]) < ttl then redis.call('pexpire', KEYS[2], ttl + 1000) end
return 1`;

const SCRIPTS: Record<Mode, { acquire: string; extend: string; release: string }> = {
  read: {
    acquire: `${CLEAN}
if redis.call('exists', KEYS[1], KEYS[3]) > 0 and not redis.call('zscore', KEYS[2], ARGV[1]) then return 0 end
${STAMP}`,
    extend: `${CLEAN}
if not redis.call('zscore', KEYS[2], ARGV[1]) then return 0 end
${STAMP}`,
    release: `return redis.call('zrem', KEYS[2], ARGV[1])`,
  },
  write: {
    acquire: `${CLEAN}
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ttl) end
if redis.call('zcard', KEYS[2]) == 0 and redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
  redis.call('del', KEYS[3])
  return 1
end
redis.call('set', KEYS[3], 1, 'PX', 1000)
return 0`,
    extend: `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`,
    release: `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`,
  },
};

export class RWLockTimeout extends Error {}
export class RWLockLost extends Error {}

export class RWLock {
  private readonly keys: [string, string, string];

  constructor(
    private readonly redis: Redis,
    private readonly name: string,
    private readonly ttlMs = 10_000,
  ) {
    this.keys = [`rw:{${name}}:w`, `rw:{${name}}:r`, `rw:{${name}}:next`];
  }

  read<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs?: number) {
    return this.run('read', fn, waitMs);
  }

  write<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs?: number) {
    return this.run('write', fn, waitMs);
  }

  private call(script: string, token: string) {
    return this.redis.eval(script, 3, ...this.keys, token, this.ttlMs) as Promise<number>;
  }

  private async run<T>(mode: Mode, fn: (signal: AbortSignal) => Promise<T>, waitMs = 15_000): Promise<T> {
    const script = SCRIPTS[mode];
    const token = randomUUID();
    const release = () => this.call(script.release, token).catch(() => 0);
    const lease = this.ttlMs * 0.9; // we stop a bit before Redis does

    const giveUp = performance.now() + waitMs;
    let until = 0;
    for (;;) {
      const sent = performance.now();
      const got = await this.call(script.acquire, token).catch(async (err) => {
        await release();
        throw err;
      });
      if (got === 1) {
        until = sent + lease;
        if (performance.now() < until) break;
        await release();
      }
      if (performance.now() > giveUp) throw new RWLockTimeout(`${mode} lock on ${this.name}`);
      await sleep(50 + Math.random() * 100);
    }

    const ac = new AbortController();
    const lost = () => ac.abort(new RWLockLost(`${mode} lock on ${this.name}`));
    let done = false;
    let alarm = setTimeout(lost, until - performance.now());
    let timer = setTimeout(beat, this.ttlMs / 3);
    const self = this;

    async function beat() {
      const sent = performance.now();
      const ok = await self.call(script.extend, token).catch(() => null);
      if (done || ac.signal.aborted) return;
      if (ok === 0) return lost();
      if (ok === 1) {
        clearTimeout(alarm);
        alarm = setTimeout(lost, Math.max(0, sent + lease - performance.now()));
      }
      timer = setTimeout(beat, self.ttlMs / 3);
    }

    try {
      const out = await fn(ac.signal);
      ac.signal.throwIfAborted();
      return out;
    } finally {
      done = true;
      clearTimeout(alarm);
      clearTimeout(timer);
      await release();
    }
  }
}
