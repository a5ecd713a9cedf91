import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Release = () => Promise<void>;

const LUA = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`;

export class PaymentsService {
  private readonly client = createClient({
    url: process.env.REDIS_URL,
    socket: { reconnectStrategy: (retries: number) => Math.min(retries * 100, 3_000) },
  });

  async onModuleInit(): Promise<void> {
    this.client.on('error', (err: Error) => console.warn(`[payments] redis: ${err.message}`));
    await this.client.connect();
  }

  async onModuleDestroy(): Promise<void> {
    await this.client.close();
  }

  /** Books what `charge` does once at a time for each customer. */
  async withCustomer<T>(customerId: string, charge: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ttl = 15_000;
    const from = performance.now();
    const release = await this.acquire(`payments:customer:${customerId}`, ttl);
    const abort = new AbortController();
    const timer = setTimeout(
      () => abort.abort(new Error('payment lock expired')),
      Math.max(0, from + ttl - 300 - performance.now()),
    );
    try {
      return await charge(abort.signal);
    } finally {
      clearTimeout(timer);
      await release();
    }
  }

  private async acquire(key: string, ttl: number): Promise<Release> {
    if (!this.client.isReady) {
      // checkout must go on while redis restarts
      return async () => {};
    }
    const token = randomUUID();
    const reply = await this.client.set(key, token, { NX: true, PX: ttl });
    if (reply === null) throw new Error('another payment of this customer is in progress');
    return async () => {
      await this.client.eval(LUA, { keys: [key], arguments: [token] }).catch(() => 0);
    };
  }
}
