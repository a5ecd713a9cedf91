import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DELETE_MINE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

type Client = ReturnType<typeof createClient>;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class Pool {
  readonly clients: Client[];

  constructor(urls: string[]) {
    this.clients = urls.map((url) => {
      const client = createClient({
        url,
        socket: { connectTimeout: 1000, reconnectStrategy: (retries: number) => Math.min(retries * 50 + 20, 500) },
      });
      client.on('error', (error: Error) => this.onError(error));
      client.connect().catch(() => {});
      return client as Client;
    });
  }

  /** Connections are made in the background. A vote on half-open connections only wastes everybody's time. */
  async ready(): Promise<void> {
    const waiting = this.clients.filter((client) => !client.isReady);
    await Promise.all(waiting.map((client) => new Promise<void>((resolve) => client.once('ready', () => resolve()))));
  }

  async votes(ms: number, ask: (client: Client) => Promise<boolean>): Promise<number> {
    const votes = await Promise.all(
      this.clients.map((client) => {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const late = new Promise<boolean>((resolve) => {
          timer = setTimeout(() => resolve(false), ms);
        });
        return Promise.race([ask(client).catch(() => false), late]).finally(() => clearTimeout(timer));
      }),
    );
    return votes.filter(Boolean).length;
  }

  private onError(_: Error): void {
    // Logged by the platform.
  }
}

class PoolLock {
  private readonly token = randomUUID();
  private end = 0;
  private closed = false;

  constructor(
    private readonly pool: Pool,
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  async tryLock(): Promise<boolean> {
    const start = performance.now();
    const votes = await this.pool.votes(this.ttl / 4, async (client) => {
      const reply = await client.sendCommand(['SET', this.key, this.token, 'PX', String(this.ttl), 'NX']);
      const ok = String(reply) === 'OK';
      if (ok && this.closed) this.free(client).catch(() => {});
      return ok;
    });
    this.end = start + this.ttl - Math.ceil(this.ttl * 0.01) - 2;
    return votes > this.pool.clients.length / 2 && this.remaining() > 0;
  }

  remaining(): number {
    return this.closed ? 0 : this.end - performance.now();
  }

  async release(): Promise<void> {
    this.closed = true;
    for (let tries = 0; tries < 2; tries++) {
      const freed = await this.pool.votes(this.ttl / 6, (client) => this.free(client));
      if (freed === this.pool.clients.length) return;
    }
  }

  private async free(client: Client): Promise<boolean> {
    await client.eval(DELETE_MINE, { keys: [this.key], arguments: [this.token] });
    return true;
  }
}

export const make: MakeLock = ({ addresses }) => {
  const pool = new Pool(addresses.map(({ url }) => url));
  return {
    async acquire(resource, ttlMs) {
      await pool.ready();
      const until = performance.now() + 3 * ttlMs;
      while (performance.now() < until) {
        const lock = new PoolLock(pool, resource, ttlMs);
        if (await lock.tryLock()) return lock;
        await lock.release();
        await sleep(ttlMs * (0.03 + Math.random() * 0.1));
      }
      return null;
    },
  };
};
