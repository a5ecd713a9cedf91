import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const LOCK_TTL_MS = 45_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

export interface LedgerBooks {
  accounts(month: string): Promise<string[]>;
  closeAccount(account: string, month: string, signal: AbortSignal): Promise<void>;
  seal(month: string, signal: AbortSignal): Promise<void>;
}

/** Month-end close. Started from the back office, takes anything from seconds to half an hour. */
export class LedgerCloser {
  constructor(
    private readonly redis: Redis,
    private readonly books: LedgerBooks,
    private readonly log: Pick<Console, 'info' | 'warn'> = console,
  ) {}

  async close(month: string): Promise<boolean> {
    const key = `ledger:close:${month}`;
    const token = randomUUID();

    const sentAt = performance.now();
    const reply = await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (reply !== 'OK') {
      this.log.info(`ledger ${month} is being closed by another node`);
      return false;
    }

    const lost = new AbortController();
    let deadline: NodeJS.Timeout | undefined;
    const arm = (from: number) => {
      clearTimeout(deadline);
      const left = from + LOCK_TTL_MS - 3_000 - performance.now();
      deadline = setTimeout(() => lost.abort(new Error('close lock ran out')), Math.max(0, left));
    };
    let active = true;
    arm(sentAt);

    const beat = setInterval(async () => {
      const at = performance.now();
      try {
        const kept = await this.redis.eval(EXTEND, 1, key, token, LOCK_TTL_MS);
        if (!active || lost.signal.aborted) return;
        if (kept === 1) arm(at);
        else lost.abort(new Error('close lock was lost'));
      } catch (err) {
        this.log.warn('ledger lock not extended', err);
      }
    }, LOCK_TTL_MS / 3);

    try {
      for (const account of await this.books.accounts(month)) {
        lost.signal.throwIfAborted();
        await this.books.closeAccount(account, month, lost.signal);
      }
      lost.signal.throwIfAborted();
      await this.books.seal(month, lost.signal);
      return true;
    } finally {
      active = false;
      clearInterval(beat);
      clearTimeout(deadline);
      await this.redis.del(key).catch((err) => this.log.warn('ledger lock left to expire', err));
    }
  }
}
