import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

export class AccountBusy extends Error {
  constructor(readonly accountId: string) {
    super(`account ${accountId} is busy`);
  }
}

export interface Turn {
  /** Aborts some time before the turn is over. */
  signal: AbortSignal;
}

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

/**
 * Wraps a function so that it runs one at a time for each account.
 * Calls wait with an exponential back-off, at most `maxWaitMs`.
 */
export function oneAtATime<A extends { accountId: string }, R>(
  client: Client,
  fn: (args: A, turn: Turn) => Promise<R>,
  { leaseMs = 30_000, marginMs = 5_000, maxWaitMs = 6_000 } = {},
): (args: A) => Promise<R> {
  return async (args) => {
    const key = `account:${args.accountId}:turn`;
    const token = randomUUID();
    const giveUpAt = performance.now() + maxWaitMs;

    try {
      for (let round = 0; ; round++) {
        const sentAt = performance.now();
        const reply = await client.set(key, token, { NX: true, PX: leaseMs });
        if (reply === 'OK') {
          const left = sentAt + leaseMs - marginMs - performance.now();
          if (left <= 0) throw new AccountBusy(args.accountId);
          return await fn(args, { signal: AbortSignal.timeout(Math.floor(left)) });
        }
        const pause = Math.min(1_000, 40 * 2 ** round) * (0.5 + Math.random() / 2);
        if (performance.now() + pause > giveUpAt) throw new AccountBusy(args.accountId);
        await delay(pause);
      }
    } finally {
      try {
        await client.eval(RELEASE, { keys: [key], arguments: [token] });
      } catch (err) {
        console.warn(`turn of account ${args.accountId} ends by its expiry`, err);
      }
    }
  };
}

export interface Billing {
  switchPlan(
    subscription: string,
    plan: string,
    opts: { idempotencyKey: string; ifVersion: number; signal: AbortSignal },
  ): Promise<{ nextInvoiceOn: string }>;
}

export interface Accounts {
  find(id: string): Promise<{ subscription: string; plan: string; version: number }>;
  /** UPDATE … SET plan, version = version + 1 WHERE id AND version; tells whether a row was changed. */
  setPlan(id: string, plan: string, nextInvoiceOn: string, version: number): Promise<boolean>;
}

export function createChangePlan(client: Client, billing: Billing, accounts: Accounts) {
  return oneAtATime(client, async (cmd: { accountId: string; plan: string }, { signal }) => {
    const account = await accounts.find(cmd.accountId);
    if (account.plan === cmd.plan) return { changed: false };

    signal.throwIfAborted();
    const { nextInvoiceOn } = await billing.switchPlan(account.subscription, cmd.plan, {
      idempotencyKey: `${cmd.accountId}:${account.version}:${cmd.plan}`,
      ifVersion: account.version,
      signal,
    });
    signal.throwIfAborted();
    const saved = await accounts.setPlan(cmd.accountId, cmd.plan, nextInvoiceOn, account.version);
    if (!saved) throw new AccountBusy(cmd.accountId);
    return { changed: true };
  });
}
