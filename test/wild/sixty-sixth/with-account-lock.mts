import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

export interface AccountLockOptions {
  ttlMs?: number;
  waitMs?: number;
  onEvent?: (name: 'acquired' | 'renewed' | 'lost' | 'release_failed', accountId: string) => void;
}

export interface HeldLock {
  readonly signal: AbortSignal;
  /** throws if the lock can no longer be assumed ours; call it right before each write */
  assertHeld(): void;
}

export class AccountBusyError extends Error {
  constructor(accountId: string) {
    super(`account ${accountId} is locked by another worker`);
    this.name = 'AccountBusyError';
  }
}

export class AccountLockLostError extends Error {
  constructor(accountId: string, reason: string) {
    super(`lock of account ${accountId} lost: ${reason}`);
    this.name = 'AccountLockLostError';
  }
}

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export async function withAccountLock<T>(
  client: RedisClientType,
  accountId: string,
  work: (lock: HeldLock) => Promise<T>,
  { ttlMs = 15_000, waitMs = 5_000, onEvent = () => {} }: AccountLockOptions = {},
): Promise<T> {
  const key = `lock:account:${accountId}`;
  const token = randomUUID();
  const margin = Math.ceil(ttlMs * 0.1);
  const giveUpAt = performance.now() + waitMs;

  const release = async () => {
    try {
      await client.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch {
      onEvent('release_failed', accountId); // it will run out by itself
    }
  };

  // The lock's life is counted from before the command went out.
  let deadline = 0;
  for (;;) {
    const sentAt = performance.now();
    let reply: string | null;
    try {
      reply = (await client.set(key, token, { NX: true, PX: ttlMs })) as string | null;
    } catch (err) {
      await release(); // may have been executed although the answer did not arrive
      throw err;
    }
    if (reply === 'OK') {
      deadline = sentAt + ttlMs - margin;
      break;
    }
    if (performance.now() >= giveUpAt) {
      throw new AccountBusyError(accountId);
    }
    await sleep(50 + Math.random() * 100);
  }
  onEvent('acquired', accountId);

  const controller = new AbortController();
  const lose = (reason: string) => {
    if (!controller.signal.aborted) {
      onEvent('lost', accountId);
      controller.abort(new AccountLockLostError(accountId, reason));
    }
  };

  let expiry: NodeJS.Timeout;
  const armExpiry = () => {
    clearTimeout(expiry);
    expiry = setTimeout(() => lose('expired'), Math.max(0, deadline - performance.now()));
  };
  armExpiry();

  let finished = false;
  let renewal: NodeJS.Timeout;
  const scheduleRenewal = () => {
    renewal = setTimeout(async () => {
      const sentAt = performance.now();
      try {
        const renewed = await client.eval(RENEW, { keys: [key], arguments: [token, String(ttlMs)] });
        if (finished || controller.signal.aborted) return;
        if (renewed !== 1) {
          lose('taken over');
          return;
        }
        deadline = sentAt + ttlMs - margin;
        armExpiry();
        onEvent('renewed', accountId);
      } catch {
        // tried again below; if it goes on failing the expiry timer ends it
      }
      if (!finished && !controller.signal.aborted) scheduleRenewal();
    }, ttlMs / 4);
  };
  scheduleRenewal();

  const assertHeld = () => {
    // a paused process wakes up with its timers not yet fired, so look at the clock as well
    if (performance.now() >= deadline) lose('expired');
    controller.signal.throwIfAborted();
  };

  try {
    assertHeld();
    return await work({ signal: controller.signal, assertHeld });
  } finally {
    finished = true;
    clearTimeout(renewal!);
    clearTimeout(expiry!);
    await release();
  }
}

export interface AccountStore {
  load(id: string): Promise<{ id: string; balance: number; version: number }>;
  /** UPDATE ... WHERE id = $1 AND version = $2; false if no row matched */
  saveIfVersion(id: string, version: number, balance: number): Promise<boolean>;
}

export function postEntry(client: RedisClientType, store: AccountStore, accountId: string, amount: number) {
  return withAccountLock(client, accountId, async (lock) => {
    const account = await store.load(accountId);
    lock.assertHeld();
    if (!(await store.saveIfVersion(accountId, account.version, account.balance + amount))) {
      throw new Error(`account ${accountId} changed under the lock`);
    }
    return account.balance + amount;
  });
}
