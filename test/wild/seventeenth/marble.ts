import { randomUUID } from 'node:crypto';
import { Redis as Valkey } from 'iovalkey';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const lua = {
  drop: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`,
  prolong: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`,
};

function open(url: string): Valkey {
  const valkey = new Valkey(url, {
    connectTimeout: 1000,
    maxRetriesPerRequest: 1,
    autoResendUnfulfilledCommands: false,
    retryStrategy: (times: number) => Math.min(times * 50, 400),
  });
  valkey.on('error', () => {});
  return valkey;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const orNo = (work: Promise<boolean>, ms: number): Promise<boolean> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    work
      .then(resolve, () => resolve(false))
      .finally(() => clearTimeout(timer));
  });

class Session {
  private readonly token = randomUUID();
  private endsAt = 0;
  private ended = false;

  constructor(
    private readonly servers: Valkey[],
    private readonly key: string,
    private ttlMs: number,
  ) {}

  async begin(): Promise<boolean> {
    const start = performance.now();
    const won = await this.majority(async (server) => {
      const ok = (await server.set(this.key, this.token, 'PX', this.ttlMs, 'NX')) === 'OK';
      if (ok && this.ended) this.drop(server).catch(() => {});
      return ok;
    });
    this.endsAt = start + this.ttlMs - this.drift(this.ttlMs);
    return won && this.remaining() > 0;
  }

  remaining(): number {
    return this.ended ? 0 : this.endsAt - performance.now();
  }

  async extend(ttlMs: number): Promise<boolean> {
    if (this.remaining() <= 0) return false;
    const won = await this.majority(
      async (server) => (await server.eval(lua.prolong, 1, this.key, this.token, ttlMs)) === 1,
    );
    if (!won || this.remaining() <= 0) return false;
    this.endsAt += ttlMs - this.drift(ttlMs);
    this.ttlMs = ttlMs;
    return true;
  }

  async release(): Promise<void> {
    this.ended = true;
    await Promise.all(
      this.servers.map(async (server) => {
        for (let i = 0; i < 3; i++) if (await orNo(this.drop(server), this.ttlMs / 8)) return;
      }),
    );
  }

  private async drop(server: Valkey): Promise<boolean> {
    await server.eval(lua.drop, 1, this.key, this.token);
    return true;
  }

  private async majority(ask: (server: Valkey) => Promise<boolean>): Promise<boolean> {
    const answers = await Promise.all(this.servers.map((server) => orNo(ask(server), this.ttlMs / 4)));
    return answers.filter(Boolean).length > this.servers.length / 2;
  }

  private drift(ttlMs: number): number {
    return Math.ceil(ttlMs * 0.01) + 2;
  }
}

export const make: MakeLock = ({ addresses }) => {
  const servers = addresses.map(({ url }) => open(url));
  return {
    async acquire(resource, ttlMs) {
      const patience = performance.now() + 3 * ttlMs + 1000;
      while (performance.now() < patience) {
        const session = new Session(servers, resource, ttlMs);
        if (await session.begin()) return session;
        await session.release();
        await sleep(ttlMs * (0.03 + Math.random() * 0.1));
      }
      return null;
    },
  };
};
