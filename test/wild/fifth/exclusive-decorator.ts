import Redis from 'iovalkey';
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

let shared: Redis | undefined;
function valkey(): Redis {
  if (!shared) {
    shared = new Redis(process.env.VALKEY_URL ?? 'redis://localhost:6379', { commandTimeout: 2_000 });
    shared.on('error', (err) => console.error('valkey', err.message));
  }
  return shared;
}

export class Busy extends Error {
  constructor(readonly key: string) {
    super(`${key} is being worked on`);
  }
}

interface Lease {
  signal: AbortSignal;
}
const leases = new AsyncLocalStorage<Lease>();

/** Signal of the innermost @Exclusive around us. */
export function leaseSignal(): AbortSignal {
  const lease = leases.getStore();
  if (!lease) throw new Error('not inside an @Exclusive method');
  return lease.signal;
}

export interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string;
  leaseMs: number;
  /** the signal comes this much earlier */
  reserveMs?: number;
}

export function Exclusive<This, A extends unknown[], R>(opts: ExclusiveOptions<A>) {
  const reserveMs = opts.reserveMs ?? 2_000;

  return function (method: (this: This, ...args: A) => Promise<R>, ctx: ClassMethodDecoratorContext) {
    const name = String(ctx.name);

    return async function (this: This, ...args: A): Promise<R> {
      const key = `excl:${name}:${opts.key(...args)}`;
      const token = randomUUID();
      const asked = performance.now();

      try {
        const reply = await valkey().set(key, token, 'PX', opts.leaseMs, 'NX');
        if (reply !== 'OK') throw new Busy(key);

        const ms = Math.floor(asked + opts.leaseMs - reserveMs - performance.now());
        if (ms <= 0) throw new Busy(key);
        return await leases.run({ signal: AbortSignal.timeout(ms) }, () => method.apply(this, args));
      } finally {
        await valkey()
          .eval(UNLOCK, 1, key, token)
          .catch((err: Error) => console.warn(`${key} will have to expire: ${err.message}`));
      }
    };
  };
}

export interface Mailboxes {
  fetchNew(box: string, signal: AbortSignal): Promise<{ uid: number; raw: string }[]>;
  fileTicket(raw: string, opts: { timeoutMs: number }): Promise<void>;
  markSeen(box: string, uid: number, opts: { timeoutMs: number }): Promise<void>;
}

export class MailToTicket {
  constructor(private readonly mail: Mailboxes) {}

  @Exclusive<MailToTicket, [string], number>({ key: (box) => box, leaseMs: 90_000, reserveMs: 5_000 })
  async poll(box: string): Promise<number> {
    const signal = leaseSignal();
    let n = 0;
    for (const m of await this.mail.fetchNew(box, signal)) {
      signal.throwIfAborted();
      await this.mail.fileTicket(m.raw, { timeoutMs: 2_000 });
      await this.mail.markSeen(box, m.uid, { timeoutMs: 2_000 });
      n++;
    }
    return n;
  }
}
