import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

interface Digest {
  recipients: string[];
  html: string;
}

interface JobOptions {
  reports: { build(day: string): Promise<Digest> };
  mailer: { sendBulk(to: string[], subject: string, html: string): Promise<void> };
  clock?: () => Date;
  log?: (line: string) => void;
}

const KEEP_SECONDS = 36 * 60 * 60;

const UNCLAIM = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Started by cron on every node at 05:00, 05:20 and 05:40 UTC. The first one claims the day.
 *
 * Customers complained about getting it twice, nobody ever complained about a missing one:
 * as soon as the mailer was called the claim stays, whatever happens. The same goes for a node
 * that dies on the way. Support can resend by hand.
 */
export async function runDailyDigest(opts: JobOptions): Promise<'sent' | 'skipped'> {
  const clock = opts.clock ?? (() => new Date());
  const log = opts.log ?? console.log;

  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => log(`redis: ${err.message}`));
  await client.connect();

  try {
    const day = clock().toISOString().slice(0, 10);
    const key = `digest:claimed:${day}`;
    const run = randomUUID();

    const claimed = await client.set(key, run, { NX: true, EX: KEEP_SECONDS });
    if (claimed !== 'OK') {
      log(`digest ${day}: done by another node`);
      return 'skipped';
    }

    let digest: Digest;
    try {
      digest = await opts.reports.build(day);
    } catch (err) {
      // nothing has left the house yet, so the 05:20 run may have another go
      await client.eval(UNCLAIM, { keys: [key], arguments: [run] });
      throw err;
    }

    await opts.mailer.sendBulk(digest.recipients, `Your day, ${day}`, digest.html);
    log(`digest ${day}: sent to ${digest.recipients.length}`);
    return 'sent';
  } finally {
    await client.quit();
  }
}
