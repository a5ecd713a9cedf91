import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, type RedisClientType } from 'redis';

export interface ElectionOptions {
  key: string;
  /** Lease in ms. A leader that cannot renew steps down after about two thirds of it. */
  ttlMs?: number;
  /** Called on election. Must return soon after the signal fires. */
  onElected: (signal: AbortSignal) => Promise<void>;
  log?: Pick<Console, 'info' | 'warn'>;
}

function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

/**
 * Simple leader election: the owner of the key leads. All replicas call `run`.
 */
export class Election {
  private readonly id = `${hostname()}/${randomUUID()}`;
  private readonly ttl: number;
  private readonly log: Pick<Console, 'info' | 'warn'>;

  constructor(private readonly client: RedisClientType, private readonly opts: ElectionOptions) {
    this.ttl = opts.ttlMs ?? 15_000;
    this.log = opts.log ?? console;
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      try {
        if (await this.campaign()) await this.serve(stop);
      } catch (err) {
        this.log.warn('election on %s: %s', this.opts.key, (err as Error).message);
      }
      await sleep(this.ttl / 3 + Math.random() * 500, undefined, { signal: stop }).catch(() => {});
    }
  }

  private async campaign(): Promise<boolean> {
    const reply = await within(
      this.client.set(this.opts.key, this.id, {
        condition: 'NX',
        expiration: { type: 'PX', value: this.ttl },
      }),
      this.ttl / 6,
      'campaign',
    );
    return reply === 'OK';
  }

  /** Keeps the lease going. Resolves to false as soon as it is gone. */
  private async renew(): Promise<boolean> {
    const reply = await within(
      this.client.set(this.opts.key, this.id, {
        condition: 'XX',
        expiration: { type: 'PX', value: this.ttl },
      }),
      this.ttl / 6,
      'renewal',
    );
    return reply === 'OK';
  }

  private async serve(stop: AbortSignal): Promise<void> {
    const term = new AbortController();
    const signal = AbortSignal.any([term.signal, stop]);
    this.log.info('%s is now leader of %s', this.id, this.opts.key);

    const heartbeat = (async () => {
      while (!term.signal.aborted) {
        await sleep(this.ttl / 3, undefined, { signal: term.signal }).catch(() => {});
        if (term.signal.aborted) return;
        const kept = await this.renew().catch((err: Error) => {
          this.log.warn('renewing %s: %s', this.opts.key, err.message);
          return false;
        });
        if (!kept) term.abort(new Error('lease lost'));
      }
    })();

    try {
      await this.opts.onElected(signal);
    } finally {
      term.abort();
      await heartbeat;
      await this.resign();
    }
  }

  private async resign(): Promise<void> {
    const script =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
    await within(
      this.client.eval(script, { keys: [this.opts.key], arguments: [this.id] }) as Promise<unknown>,
      this.ttl / 6,
      'resignation',
    ).catch((err: Error) => this.log.warn('resigning from %s: %s', this.opts.key, err.message));
    this.log.info('%s no longer leads %s', this.id, this.opts.key);
  }
}

// example: only one replica polls the mailbox
export async function startMailPoller(poll: (signal: AbortSignal) => Promise<void>, stop: AbortSignal) {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on('error', (err) => console.error('[redis]', err.message));
  await client.connect();
  await new Election(client as RedisClientType, {
    key: 'leader:mail-poller',
    onElected: async (signal) => {
      while (!signal.aborted) {
        await poll(signal);
        await sleep(5_000, undefined, { signal }).catch(() => {});
      }
    },
  }).run(stop);
  await client.close();
}
