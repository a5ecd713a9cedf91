import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';

const TTL = 30_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface Mailing {
  id: string;
  /** from the first recipient that is not marked as mailed */
  chunks(): AsyncIterable<string[]>;
  /** bounded: gives up after 10s */
  mail(recipients: string[]): Promise<void>;
}

export class MailingWorker {
  constructor(
    private readonly redis: ReturnType<typeof createClient>,
    private readonly log: Logger,
  ) {}

  async process(mailing: Mailing): Promise<boolean> {
    const key = `mailing:${mailing.id}:worker`;
    const token = randomUUID();
    if ((await this.redis.set(key, token, { NX: true, PX: TTL })) !== 'OK') return false;

    try {
      for await (const chunk of mailing.chunks()) {
        await this.extend(key, token);
        await mailing.mail(chunk);
      }
      return true;
    } finally {
      await this.redis.eval(UNLOCK, { keys: [key], arguments: [token] });
    }
  }

  private async extend(key: string, token: string): Promise<void> {
    const asked = performance.now();
    const res = await this.redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL)] });
    if (res !== 1) {
      this.log.warn({ key }, 'could not extend mailing lock');
    }
    if (performance.now() - asked > TTL / 2) throw new Error('redis is too slow to mail safely');
  }
}
