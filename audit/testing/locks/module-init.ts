import { createClient } from 'redis';

/** As a framework makes it: it connects in a hook of its module. */
export class DigestService {
  private readonly client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });

  async onModuleInit(): Promise<void> {
    this.client.on('error', () => {});
    await this.client.connect();
  }

  async runOnce(job: string, task: () => Promise<void>): Promise<boolean> {
    if ((await this.client.set(`digest:${job}`, '1', { NX: true, PX: 86_400_000 })) === null) return false;
    await task();
    return true;
  }
}
