import { createClient, type RedisClientType } from 'redis';

export class LockManager {
  private client: RedisClientType | null = null;
  private readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  async connect(): Promise<void> {
    this.client = createClient({ url: this.url });
    this.client.on('error', () => {});
    await this.client.connect();
  }

  async acquireLock(name: string, ttlMs: number): Promise<boolean> {
    return (await this.connected.set(name, 'held', { NX: true, PX: ttlMs })) === 'OK';
  }

  async releaseLock(name: string): Promise<void> {
    await this.connected.del(name);
  }

  private get connected(): RedisClientType {
    if (this.client === null) throw new Error('connect() was not called');
    return this.client;
  }
}
