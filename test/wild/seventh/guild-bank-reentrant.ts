import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

interface Hold {
  token: string;
  until: number;
  abort: AbortController;
}

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const MOVE = `
-- ioredis sends again what a broken connection left unanswered
if redis.call('exists', KEYS[3]) == 1 then return 'ok' end
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 'lost' end
local have = tonumber(redis.call('hget', KEYS[2], 'gold') or '0')
if have + tonumber(ARGV[2]) < 0 then return 'poor' end
redis.call('set', KEYS[3], '1', 'EX', 600)
redis.call('hincrby', KEYS[2], 'gold', ARGV[2])
return 'ok'`;

/** Reentrant per async call chain: only code called from inside the section finds the hold. */
export class GuildBank {
  private readonly chain = new AsyncLocalStorage<ReadonlyMap<string, Hold>>();
  constructor(private readonly redis: Redis = new Redis(process.env.GAME_REDIS!), private readonly ttl = 9_000) {}

  async exclusive<T>(guild: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const holds = this.chain.getStore();
    const outer = holds?.get(guild);
    if (outer) {
      outer.abort.signal.throwIfAborted();
      return fn(outer.abort.signal);
    }

    const key = `guild:{${guild}}:lock`;
    const hold: Hold = { token: randomUUID(), until: 0, abort: new AbortController() };
    for (let tries = 0; ; tries++) {
      const t0 = performance.now();
      if ((await this.redis.set(key, hold.token, 'PX', this.ttl, 'NX')) === 'OK') {
        hold.until = t0 + this.ttl;
        break;
      }
      if (tries > 50) throw new Error(`guild bank ${guild} is busy`);
      await new Promise((r) => setTimeout(r, 60 + Math.random() * 120));
    }

    const stop = this.watch(key, hold);
    try {
      return await this.chain.run(new Map(holds ?? []).set(guild, hold), () => fn(hold.abort.signal));
    } finally {
      stop();
      hold.abort.abort(new Error('section is over'));
      await this.redis.eval(UNLOCK, 1, key, hold.token).catch(() => 0);
    }
  }

  private watch(key: string, hold: Hold): () => void {
    let ending: NodeJS.Timeout;
    const arm = () => {
      clearTimeout(ending);
      ending = setTimeout(() => hold.abort.abort(new Error('lease ran out')), Math.max(0, hold.until - performance.now() - 500));
    };
    arm();
    const tick = setInterval(async () => {
      const t0 = performance.now();
      try {
        const ok = await this.redis.eval(RENEW, 1, key, hold.token, this.ttl);
        if (ok !== 1) return hold.abort.abort(new Error('lease lost'));
        if (hold.abort.signal.aborted) return;
        hold.until = t0 + this.ttl;
        arm();
      } catch {
        // the deadline stands, `ending` fires if nothing gets through
      }
    }, this.ttl / 3);
    return () => {
      clearInterval(tick);
      clearTimeout(ending);
    };
  }

  deposit(guild: string, gold: number) {
    return this.exclusive(guild, () => this.move(guild, gold));
  }

  /** both legs or a visible error */
  async exchange(guild: string, cost: number, buy: (signal: AbortSignal) => Promise<number>) {
    return this.exclusive(guild, async (signal) => {
      await this.move(guild, -cost);
      const change = await buy(signal);
      signal.throwIfAborted();
      if (change > 0) await this.deposit(guild, change);
    });
  }

  private async move(guild: string, gold: number): Promise<void> {
    const hold = this.chain.getStore()?.get(guild);
    if (!hold) throw new Error('not inside exclusive()');
    hold.abort.signal.throwIfAborted();
    const p = `guild:{${guild}}`;
    const r = await this.redis.eval(MOVE, 3, `${p}:lock`, `${p}:bank`, `${p}:op:${randomUUID()}`, hold.token, gold);
    if (r !== 'ok') throw new Error(`guild ${guild}: ${r}`);
  }
}
