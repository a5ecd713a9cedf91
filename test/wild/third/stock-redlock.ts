import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface Settings {
  ttl: number;
  attempts: number;
  pauseMs: number;
  askTimeoutMs: number;
}

const DEFAULTS: Settings = { ttl: 8_000, attempts: 12, pauseMs: 150, askTimeoutMs: 120 };

const SCRIPT_RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export class StockLockedError extends Error {}

/** Redlock over independent masters. */
export class StockRedlock {
  private readonly settings: Settings;
  private readonly quorum: number;

  constructor(
    private readonly masters: readonly Redis[],
    settings: Partial<Settings> = {},
  ) {
    this.settings = { ...DEFAULTS, ...settings };
    this.quorum = Math.floor(masters.length / 2) + 1;
  }

  async using<T>(sku: string, routine: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { token, validUntil } = await this.acquire(`stock:${sku}`);
    const abort = new AbortController();
    const timer = setTimeout(
      () => abort.abort(new Error(`the lock of ${sku} is over`)),
      Math.max(0, validUntil - performance.now()),
    );
    try {
      return await routine(abort.signal);
    } finally {
      clearTimeout(timer);
      await this.release(`stock:${sku}`, token);
    }
  }

  private async acquire(key: string): Promise<{ token: string; validUntil: number }> {
    const { ttl, attempts, pauseMs } = this.settings;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const token = randomBytes(20).toString('hex');
      const begin = performance.now();
      const votes = await this.ask(async (master) => (await master.set(key, token, 'PX', ttl, 'NX')) === 'OK');
      const validUntil = begin + ttl - (ttl * 0.01 + 2);
      if (votes >= this.quorum && performance.now() < validUntil) return { token, validUntil };

      await this.release(key, token);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * pauseMs * 2));
    }
    throw new StockLockedError(key);
  }

  private async release(key: string, token: string): Promise<void> {
    await this.ask(async (master) => (await master.eval(SCRIPT_RELEASE, 1, key, token)) === 1);
  }

  /** A master that fails or is slow has not agreed. */
  private async ask(question: (master: Redis) => Promise<boolean>): Promise<number> {
    const answers = this.masters.map((master) => {
      const silence = new Promise<boolean>((resolve) => {
        setTimeout(resolve, this.settings.askTimeoutMs, false);
      });
      return Promise.race([question(master).catch(() => false), silence]);
    });
    return (await Promise.all(answers)).filter(Boolean).length;
  }
}
