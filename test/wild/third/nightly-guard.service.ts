import { hostname } from 'node:os';
import { createClient } from 'redis';

const KEEP_CLAIM_MS = 48 * 60 * 60 * 1000;

/**
 * Every pod has the same @Cron table. Whoever claims a slot runs it; the claim stays for two days, so that a pod whose
 * timer fires late does not run the slot again. A slot whose pod dies is not repeated: operations gets the alert.
 */
export class NightlyGuardService {
  private readonly client = createClient({ url: process.env.REDIS_URL });

  async onModuleInit(): Promise<void> {
    this.client.on('error', (err: Error) => console.error('nightly guard:', err.message));
    await this.client.connect();
  }

  async onModuleDestroy(): Promise<void> {
    await this.client.close();
  }

  /** @returns whether this pod ran the slot */
  async runOnce(job: string, slot: Date, task: () => Promise<void>): Promise<boolean> {
    const key = `nightly:${job}:${slot.toISOString().slice(0, 16)}`;
    const claimed = await this.client.set(key, hostname(), { NX: true, PX: KEEP_CLAIM_MS });
    if (claimed === null) return false;
    await task();
    return true;
  }
}
