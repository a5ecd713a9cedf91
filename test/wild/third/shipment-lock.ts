import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const client: Client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
client.on('error', (err: Error) => console.error('shipment-lock', err.message));

const LEASE = 9_000;
const SAFETY = 150;

async function ready(): Promise<Client> {
  if (!client.isOpen) await client.connect();
  return client;
}

/** Redis 8.4 compares by itself, what is older does it in a script. */
async function whileEqual(newCommand: string[], script: string, key: string, args: string[]): Promise<boolean> {
  const c = await ready();
  try {
    const reply = await c.sendCommand(newCommand);
    return Number(reply) === 1 || String(reply) === 'OK';
  } catch (err) {
    if (!/unknown command|syntax error/i.test((err as Error).message)) throw err;
    return (await c.eval(script, { keys: [key], arguments: args })) === 1;
  }
}

export class ShipmentLock implements AsyncDisposable {
  private readonly abort = new AbortController();
  private fuse: NodeJS.Timeout;
  private timer: NodeJS.Timeout;
  private renewing: Promise<void> = Promise.resolve();

  private constructor(
    private readonly key: string,
    private readonly token: string,
    private until: number,
  ) {
    this.fuse = setTimeout(() => this.lose(), until - performance.now());
    this.timer = setInterval(() => {
      this.renewing = this.renewing.then(() => this.renew());
    }, LEASE / 3);
  }

  static async acquire(shipmentId: string): Promise<ShipmentLock | null> {
    const c = await ready();
    const key = `shipment:${shipmentId}:lock`;
    const token = randomUUID();
    const sent = performance.now();
    const reply = await c.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: LEASE } });
    if (reply !== 'OK') return null;
    const until = sent + LEASE - SAFETY;
    if (performance.now() < until) return new ShipmentLock(key, token, until);
    await remove(key, token);
    return null;
  }

  /** Aborted as soon as the shipment may be somebody else's. */
  get signal(): AbortSignal {
    return this.abort.signal;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.timer);
    await this.renewing;
    clearTimeout(this.fuse);
    await remove(this.key, this.token).catch((err: Error) => console.warn(err.message));
  }

  private async renew(): Promise<void> {
    if (this.abort.signal.aborted) return;
    const sent = performance.now();
    const kept = await whileEqual(
      ['SET', this.key, this.token, 'IFEQ', this.token, 'PX', String(LEASE)],
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0",
      this.key,
      [this.token, String(LEASE)],
    ).catch(() => undefined);
    if (kept === undefined || this.abort.signal.aborted) return;
    if (!kept) return this.lose();
    this.until = sent + LEASE - SAFETY;
    clearTimeout(this.fuse);
    this.fuse = setTimeout(() => this.lose(), Math.max(0, this.until - performance.now()));
  }

  private lose(): void {
    clearInterval(this.timer);
    this.abort.abort(new Error(`${this.key} is lost`));
  }
}

function remove(key: string, token: string): Promise<boolean> {
  return whileEqual(
    ['DELEX', key, 'IFEQ', token],
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    key,
    [token],
  );
}

/** Prints the label, if nobody else is at it. */
export async function shipOnce(shipmentId: string, print: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  await using lock = await ShipmentLock.acquire(shipmentId);
  if (!lock) return false;
  await print(lock.signal);
  return true;
}
