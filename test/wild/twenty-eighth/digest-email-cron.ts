import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

/**
 * Hourly activity digest. The scheduler fires the endpoint in every region (and sometimes
 * twice in the same one), so each hour is a slot that can be claimed once.
 *
 * A slot is claimed at most once: a digest that fails half-way is not tried again, the
 * next hour's digest covers everything since the member's last one anyway. Members
 * complain about two e-mails, not about one that comes an hour late.
 */

const HOUR_MS = 60 * 60 * 1000;
const CLAIM_TTL_SECONDS = 6 * 60 * 60;

const kv = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

export interface DigestMailer {
  membersWithActivity(): AsyncIterable<{ memberId: string; email: string }>;
  sendDigest(memberId: string, email: string, slot: string): Promise<void>;
}

/** The regions' clocks differ by seconds at most, so the nearest full hour is the same for all. */
export function slotFor(now: number): string {
  return new Date(Math.round(now / HOUR_MS) * HOUR_MS).toISOString();
}

async function claimSlot(slot: string): Promise<boolean> {
  const runId = `${process.env.VERCEL_REGION ?? 'local'}/${randomUUID()}`;
  const reply = await kv.set(`cron:digest:${slot}`, runId, {
    nx: true,
    ex: CLAIM_TTL_SECONDS,
  });
  return reply === 'OK';
}

export async function runDigest(
  mailer: DigestMailer,
  now: number = Date.now(),
): Promise<{ slot: string; claimed: boolean; sent: number; failed: number }> {
  const slot = slotFor(now);

  if (!(await claimSlot(slot))) {
    console.log(JSON.stringify({ msg: 'digest slot already claimed', slot }));
    return { slot, claimed: false, sent: 0, failed: 0 };
  }

  let sent = 0;
  let failed = 0;
  for await (const { memberId, email } of mailer.membersWithActivity()) {
    try {
      await mailer.sendDigest(memberId, email, slot);
      sent += 1;
    } catch (err) {
      failed += 1;
      console.error(JSON.stringify({ msg: 'digest mail failed', slot, memberId, err: String(err) }));
    }
  }

  console.log(JSON.stringify({ msg: 'digest finished', slot, sent, failed }));
  return { slot, claimed: true, sent, failed };
}

/** Route handler for the scheduler's call. */
export async function handleCron(req: Request, mailer: DigestMailer): Promise<Response> {
  if (req.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('unauthorized', { status: 401 });
  }
  const outcome = await runDigest(mailer);
  return Response.json(outcome, { status: outcome.claimed ? 200 : 202 });
}
