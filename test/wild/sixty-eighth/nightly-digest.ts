import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import schedule from 'node-schedule';
import { Counter } from 'prom-client';

type RedisClient = ReturnType<typeof createClient>;

export interface DigestMailer {
  /** The mail service keeps dedupeKey for 30 days and drops what it has already taken. */
  enqueue(mail: { accountId: string; template: string; dedupeKey: string }): Promise<void>;
}

export interface AccountRepository {
  withDigestEnabled(afterId: string | null, limit: number): Promise<Array<{ id: string }>>;
}

export interface Logger {
  info(obj: object, msg: string): void;
  error(obj: object, msg: string): void;
}

interface Deps {
  redis: RedisClient;
  mailer: DigestMailer;
  accounts: AccountRepository;
  log: Logger;
}

const SLOT_TTL_SECONDS = 6 * 60 * 60;
const MAX_RUN_MS = 4 * 60 * 60 * 1000;
const PAGE = 500;

const runs = new Counter({
  name: 'nightly_digest_runs_total',
  help: 'Digest runs by outcome',
  labelNames: ['outcome'],
});

/**
 * All replicas schedule the digest; the first to claim the slot sends it.
 *
 * The claim is never given back, on purpose: a replica whose clock is a few minutes late must still
 * find it. What we promise is at most one run for each night. When the replica that claimed the slot
 * dies in the middle, the rest of that night's digests is not sent (agreed with product: better none
 * than twice). Should Redis lose the claim, the dedupe key in the mailer catches the second run.
 */
export async function runDigest(fireDate: Date, deps: Deps): Promise<'sent' | 'skipped' | 'failed'> {
  const { redis, log } = deps;
  // fireDate is the nominal time of the schedule, not the time at which the timer went off here
  const night = fireDate.toISOString().slice(0, 10);
  const key = `cron:nightly-digest:${night}`;

  let claimed: string | null;
  try {
    claimed = (await redis.set(key, `${hostname()}/${randomUUID()}`, {
      NX: true,
      EX: SLOT_TTL_SECONDS,
    })) as string | null;
  } catch (err) {
    // We cannot tell whether the claim is ours, so we do not run.
    log.error({ err, night }, 'digest slot could not be claimed');
    runs.inc({ outcome: 'claim_error' });
    return 'failed';
  }

  if (claimed !== 'OK') {
    runs.inc({ outcome: 'skipped' });
    return 'skipped';
  }

  try {
    const count = await sendAll(night, deps);
    log.info({ night, count }, 'digest sent');
    runs.inc({ outcome: 'sent' });
    return 'sent';
  } catch (err) {
    log.error({ err, night }, 'digest stopped half-way');
    runs.inc({ outcome: 'failed' });
    return 'failed';
  }
}

async function sendAll(night: string, { accounts, mailer }: Deps): Promise<number> {
  const stopAt = performance.now() + MAX_RUN_MS;
  let after: string | null = null;
  let count = 0;

  for (;;) {
    if (performance.now() > stopAt) {
      throw new Error(`digest for ${night} took more than ${MAX_RUN_MS} ms`);
    }
    const page: Array<{ id: string }> = await accounts.withDigestEnabled(after, PAGE);
    if (page.length === 0) {
      return count;
    }
    for (const account of page) {
      await mailer.enqueue({
        accountId: account.id,
        template: 'nightly-digest',
        dedupeKey: `digest:${night}:${account.id}`,
      });
      count += 1;
    }
    after = page[page.length - 1].id;
  }
}

export function scheduleDigest(deps: Deps): schedule.Job {
  return schedule.scheduleJob({ rule: '0 3 * * *', tz: 'Etc/UTC' }, (fireDate: Date) => {
    void runDigest(fireDate, deps);
  });
}
