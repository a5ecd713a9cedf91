import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

interface Vault {
  guildId: string;
  slots: Record<string, number>;
  capacity: number;
}

interface VaultStore {
  load(guildId: string, opts: { signal: AbortSignal }): Promise<Vault>;
  save(vault: Vault, opts: { signal: AbortSignal }): Promise<void>;
}

interface Logger {
  debug(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

interface Hold {
  key: string;
  token: string;
  budgetMs: number;
}

const HOLD_MS = 10_000;
const SPARE_MS = 3_000;
const ATTEMPTS = 25;

export class GuildVaultService {
  private readonly redis: Redis;
  private readonly store: VaultStore;
  private readonly log: Logger;

  constructor(redis: Redis, store: VaultStore, log: Logger) {
    this.redis = redis;
    this.store = store;
    this.log = log;
  }

  async deposit(guildId: string, itemId: string, count: number): Promise<number> {
    return this.edit(guildId, (vault) => {
      const used = Object.values(vault.slots).reduce((sum, n) => sum + n, 0);
      if (used + count > vault.capacity) throw new Error('vault is full');
      vault.slots[itemId] = (vault.slots[itemId] ?? 0) + count;
      return vault.slots[itemId];
    });
  }

  async withdraw(guildId: string, itemId: string, count: number): Promise<number> {
    return this.edit(guildId, (vault) => {
      const have = vault.slots[itemId] ?? 0;
      if (have < count) throw new Error('not enough items in the vault');
      vault.slots[itemId] = have - count;
      return vault.slots[itemId];
    });
  }

  /** Read, change and save the vault document as the only editor of this guild. */
  private async edit<T>(guildId: string, change: (vault: Vault) => T): Promise<T> {
    const hold = await this.lock(guildId);
    try {
      const signal = AbortSignal.timeout(hold.budgetMs);
      const vault = await this.store.load(guildId, { signal });
      const result = change(vault);
      signal.throwIfAborted();
      await this.store.save(vault, { signal });
      return result;
    } finally {
      await this.unlock(hold).catch((err: unknown) => {
        this.log.warn('vault hold left to expire', { key: hold.key, err });
      });
    }
  }

  private async lock(guildId: string): Promise<Hold> {
    const key = `guild:{${guildId}}:vault-hold`;
    const token = randomUUID();
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const sentAt = performance.now();
      if ((await this.redis.set(key, token, 'PX', HOLD_MS, 'NX')) === 'OK') {
        const budgetMs = Math.floor(HOLD_MS - SPARE_MS - (performance.now() - sentAt));
        if (budgetMs > 0) return { key, token, budgetMs };
        throw new Error('vault hold came too late');
      }
      await sleep(40 + Math.random() * 80);
    }
    throw new Error('vault is busy');
  }

  /** Gives the hold back, but only when it is still ours. */
  private async unlock(hold: Hold): Promise<void> {
    const holder = await this.redis.get(hold.key);
    if (holder !== hold.token) {
      this.log.warn('vault hold had already expired', { key: hold.key });
      return;
    }
    // MULTI: the delete and the counter for the dashboard happen as one step.
    await this.redis
      .multi()
      .del(hold.key)
      .hincrby(`${hold.key}:stats`, 'released', 1)
      .exec();
    this.log.debug('vault hold released', { key: hold.key });
  }
}
