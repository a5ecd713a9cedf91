import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

// Sends one newsletter issue. Several mailer pods listen to the same
// "issue approved" event; the lock picks the one that sends.

const LOCK_MS = 30_000;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export interface Issue {
  id: string;
  subject: string;
  html: string;
}

export interface MailerDeps {
  nextBatch(issueId: string): Promise<{ id: string; email: string }[]>;
  deliver(email: string, issue: Issue): Promise<void>;
  markDelivered(issueId: string, recipientIds: string[]): Promise<void>;
  log: { info(msg: string): void; warn(msg: string, err?: unknown): void };
}

export async function onIssueApproved(issue: Issue, deps: MailerDeps): Promise<number> {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
  client.on('error', (err) => deps.log.warn('redis', err));
  await client.connect();
  try {
    const key = `newsletter:${issue.id}:sending`;
    const token = randomUUID();
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: LOCK_MS },
    });
    if (reply !== 'OK') {
      deps.log.info(`issue ${issue.id} is sent by another pod`);
      return 0;
    }

    const watchdog = setInterval(async () => {
      try {
        const kept = await client.eval(EXTEND, { keys: [key], arguments: [token, String(LOCK_MS)] });
        if (kept !== 1) {
          deps.log.warn(`issue ${issue.id}: sending lock is not ours any more`);
          clearInterval(watchdog);
        }
      } catch (err) {
        deps.log.warn(`issue ${issue.id}: sending lock not extended`, err);
      }
    }, LOCK_MS / 3);

    let delivered = 0;
    try {
      for (;;) {
        const batch = await deps.nextBatch(issue.id);
        if (batch.length === 0) break;
        for (const recipient of batch) {
          await deps.deliver(recipient.email, issue);
          delivered++;
        }
        await deps.markDelivered(issue.id, batch.map((r) => r.id));
      }
    } finally {
      clearInterval(watchdog);
      await client.eval(RELEASE, { keys: [key], arguments: [token] }).catch((err) => {
        deps.log.warn(`issue ${issue.id}: lock left to expire`, err);
      });
    }
    return delivered;
  } finally {
    client.destroy();
  }
}
