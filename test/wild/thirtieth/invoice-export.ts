import { randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { commandTimeout: 4_000 });
redis.on('error', (err) => console.error('[invoice-export] redis', err.message));

const TTL_MS = 30_000;
const RENEW_EVERY_MS = 8_000;
const MARGIN_MS = 5_000; // we stop this long before Redis lets go

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;
const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface Lease {
  readonly signal: AbortSignal;
  assertHeld(): void;
}

async function release(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    console.warn('[invoice-export] release failed, leaving %s to its TTL', key, err);
  }
}

export async function withLock<T>(name: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  let deadline = performance.now() + TTL_MS - MARGIN_MS;

  let reply: 'OK' | null;
  try {
    reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  } catch (err) {
    await release(key, token); // the SET may have landed without us hearing about it
    throw err;
  }
  if (reply !== 'OK') throw new LockBusyError(`${name} is being processed elsewhere`);

  const ctl = new AbortController();
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  const lease: Lease = {
    signal: ctl.signal,
    assertHeld() {
      if (performance.now() >= deadline) ctl.abort(new LockLostError(name));
      ctl.signal.throwIfAborted();
    },
  };

  const renew = async (): Promise<void> => {
    const sentAt = performance.now();
    let next = RENEW_EVERY_MS;
    try {
      const n = await redis.eval(RENEW, 1, key, token, TTL_MS);
      if (n !== 1) return ctl.abort(new LockLostError(name));
      deadline = sentAt + TTL_MS - MARGIN_MS;
    } catch {
      if (performance.now() >= deadline) return ctl.abort(new LockLostError(name));
      next = 1_000;
    }
    if (!stopped) timer = setTimeout(renew, next);
  };
  timer = setTimeout(renew, RENEW_EVERY_MS);

  try {
    lease.assertHeld();
    return await fn(lease);
  } finally {
    stopped = true;
    clearTimeout(timer);
    await release(key, token);
  }
}

export interface InvoiceSource {
  pages(month: string): AsyncIterable<{ number: string; customer: string; totalCents: number }[]>;
}

export async function exportInvoices(source: InvoiceSource, month: string, outDir: string): Promise<string> {
  return withLock(`invoice-export:${month}`, async (lease) => {
    const rows = ['number;customer;total'];
    for await (const page of source.pages(month)) {
      lease.assertHeld();
      for (const inv of page) rows.push(`${inv.number};${inv.customer};${(inv.totalCents / 100).toFixed(2)}`);
    }

    const target = join(outDir, `invoices-${month}.csv`);
    const part = `${target}.${randomUUID()}.part`;
    try {
      await writeFile(part, rows.join('\n') + '\n', { signal: lease.signal });
      lease.assertHeld();
      await rename(part, target);
    } catch (err) {
      await rm(part, { force: true });
      throw err;
    }
    return target;
  });
}
