import { Redis } from 'ioredis';
import { randomBytes, createHash } from 'node:crypto';

const SESSION_MS = 90_000;

function script(src: string) {
  return { src, sha: createHash('sha1').update(src).digest('hex') };
}

// A lock has no ttl of its own. It names "<session>|<nonce>" and counts for as long as that session exists.
const TAKE = script(`
if redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then return 1 end
if cur then
  local session = string.match(cur, '^([^|]+)|')
  if redis.call('EXISTS', 'pump:session:' .. session) == 1 then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1])
return 1`);

const APPLY = script(`
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[3], 'rpm', ARGV[2], 'by', ARGV[1])
return 1`);

const LET_GO = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`);

export class PumpController {
  private session: string | null = null;
  private keepAlive?: NodeJS.Timeout;

  constructor(private readonly redis: Redis) {}

  private async run(s: { src: string; sha: string }, keys: string[], args: (string | number)[]) {
    try {
      return await this.redis.evalsha(s.sha, keys.length, ...keys, ...args);
    } catch (e) {
      if (!String((e as Error).message).startsWith('NOSCRIPT')) throw e;
      return this.redis.eval(s.src, keys.length, ...keys, ...args);
    }
  }

  async open(): Promise<void> {
    const id = randomBytes(12).toString('hex');
    await this.redis.set(`pump:session:${id}`, process.pid, 'PX', SESSION_MS);
    this.session = id;
    clearInterval(this.keepAlive);
    this.keepAlive = setInterval(() => void this.beat(id), SESSION_MS / 3);
    this.keepAlive.unref();
  }

  private async beat(id: string) {
    try {
      const alive = await this.redis.pexpire(`pump:session:${id}`, SESSION_MS);
      // an expired session stays dead; the next caller opens another one under a new id
      if (alive === 0 && this.session === id) this.session = null;
    } catch {
      /* next beat */
    }
  }

  async setSpeed(pump: string, plan: (state: Record<string, string>) => Promise<number>): Promise<boolean> {
    if (!this.session) await this.open();
    const session = this.session!;
    const sessionKey = `pump:session:${session}`;
    const lockKey = `pump:lock:${pump}`;
    const stateKey = `pump:state:${pump}`;
    const handle = `${session}|${randomBytes(8).toString('hex')}`;

    let got: unknown;
    try {
      got = await this.run(TAKE, [lockKey, sessionKey], [handle]);
    } catch (e) {
      this.abandon(session); // we may hold it without knowing
      throw e;
    }
    if (got === -1) {
      if (this.session === session) this.session = null;
      return false;
    }
    if (got !== 1) return false;
    try {
      const rpm = await plan(await this.redis.hgetall(stateKey));
      return (await this.run(APPLY, [lockKey, sessionKey, stateKey], [handle, rpm])) === 1;
    } finally {
      // if this is lost too, the lock hangs on our session: end it rather than block the pump
      await this.run(LET_GO, [lockKey], [handle]).catch(() => this.abandon(session));
    }
  }

  private abandon(session: string) {
    if (this.session !== session) return;
    this.session = null;
    clearInterval(this.keepAlive);
  }

  async close() {
    const id = this.session;
    this.session = null;
    clearInterval(this.keepAlive);
    if (id) await this.redis.del(`pump:session:${id}`);
  }
}
