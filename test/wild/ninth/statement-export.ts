// app/api/statements/[account]/route.ts
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const TTL_MS = 45_000;
const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class Locked extends Error {}

class AccountLease implements AsyncDisposable {
  readonly #key: string;
  readonly #token: string;
  readonly #until: number;

  private constructor(key: string, token: string, until: number) {
    this.#key = key;
    this.#token = token;
    this.#until = until;
  }

  static async take(account: string): Promise<AccountLease> {
    const key = `statement:${account}:lock`;
    const token = randomUUID();
    const until = performance.now() + TTL_MS - 1_000;
    const reply = await redis.set(key, token, { nx: true, px: TTL_MS });
    if (reply !== 'OK') throw new Locked(account);
    return new AccountLease(key, token, until);
  }

  /** We don't prolong; an export that takes longer than this stops half-way and is redone. */
  mustHaveTime(): void {
    if (performance.now() >= this.#until) throw new Error(`${this.#key}: out of time`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await redis.eval(UNLOCK, [this.#key], [this.#token]).catch((err) => {
      console.warn(`${this.#key}: not unlocked, it will lapse`, err);
    });
  }
}

interface Page {
  number: number;
  lines: string[];
}

export interface Archive {
  nextSequence(account: string): Promise<number>;
  pages(account: string): AsyncIterable<Page>;
  append(account: string, sequence: number, page: Page): Promise<void>;
  seal(account: string, sequence: number): Promise<void>;
}

async function writeStatement(archive: Archive, account: string, lease: AccountLease): Promise<number> {
  const sequence = await archive.nextSequence(account);
  for await (const page of archive.pages(account)) {
    lease.mustHaveTime();
    await archive.append(account, sequence, page);
  }
  lease.mustHaveTime();
  await archive.seal(account, sequence);
  return sequence;
}

/** Statements of an account are numbered without gaps, so one export at a time. */
export async function exportStatement(archive: Archive, account: string): Promise<number> {
  await using lease = await AccountLease.take(account);
  return writeStatement(archive, account, lease);
}

export const handler =
  (archive: Archive) =>
  async (_req: Request, ctx: { params: Promise<{ account: string }> }): Promise<Response> => {
    const { account } = await ctx.params;
    try {
      return Response.json({ statement: await exportStatement(archive, account) });
    } catch (err) {
      if (err instanceof Locked) return Response.json({ error: 'export is running' }, { status: 409 });
      console.error(`statement ${account}`, err);
      return Response.json({ error: 'export failed' }, { status: 500 });
    }
  };
