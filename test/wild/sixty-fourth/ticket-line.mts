import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

/**
 * A lock that is handed out in the order of arrival.
 *
 * Everyone who wants the lock lines up in a Redis list. Only the first in line
 * may take the lock key (SET NX PX, in the same script), and leaves the line by
 * doing so. Nobody can jump the queue, and nobody starves.
 */

type Client = ReturnType<typeof createClient>;

// KEYS[1] line, KEYS[2] lock
const TAKE_IF_FIRST = `
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then
  return 0
end
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
redis.call('LPOP', KEYS[1])
return 1
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export interface TicketOptions {
  /** how long the lock is held at most; the work is cut off before */
  ttl?: number;
  /** how long we stay in line */
  wait?: number;
}

export class TicketLine {
  constructor(private readonly client: Client, private readonly name: string) {}

  private get line() {
    return `line:{${this.name}}`;
  }

  private get lock() {
    return `line:{${this.name}}:lock`;
  }

  private async acquire(ttl: number, wait: number): Promise<{ token: string; until: number }> {
    const token = randomUUID();
    const giveUp = performance.now() + wait;

    await this.client.rPush(this.line, token);
    try {
      while (performance.now() < giveUp) {
        const sent = performance.now();
        const mine = await this.client.eval(TAKE_IF_FIRST, {
          keys: [this.line, this.lock],
          arguments: [token, String(ttl)],
        });
        if (mine === 1) return { token, until: sent + ttl * 0.9 };
        await sleep(100 + Math.random() * 100);
      }
      throw new Error(`${this.name}: not our turn within ${wait} ms`);
    } catch (err) {
      // step out of the line
      await this.client.lRem(this.line, 1, token).catch(() => 0);
      throw err;
    }
  }

  /** Runs `fn` when it is our turn. The signal fires before the lock expires. */
  async run<T>(
    fn: (signal: AbortSignal) => Promise<T>,
    { ttl = 30_000, wait = 120_000 }: TicketOptions = {},
  ): Promise<T> {
    const { token, until } = await this.acquire(ttl, wait);
    const left = Math.floor(until - performance.now());
    try {
      return await fn(AbortSignal.timeout(Math.max(1, left)));
    } finally {
      await this.client
        .eval(RELEASE, { keys: [this.lock], arguments: [token] })
        .catch((err: Error) => console.warn(`${this.name}: expires by itself`, err.message));
    }
  }
}

const client = await createClient({ url: process.env.REDIS_URL })
  .on('error', (err: Error) => console.error('redis', err.message))
  .connect();

const printer = new TicketLine(client as Client, 'label-printer');

/** The label printer takes one job at a time, customers expect theirs in order. */
export function printLabel(zpl: string): Promise<void> {
  return printer.run(async (signal) => {
    const res = await fetch(process.env.PRINTER_URL!, { method: 'POST', body: zpl, signal });
    if (!res.ok) throw new Error(`printer: ${res.status}`);
  });
}
