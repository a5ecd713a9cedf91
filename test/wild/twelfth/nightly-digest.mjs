// Started by cron at 02:15 UTC on every app server. The digest must go out
// once, whichever server gets there first.
import { hostname } from 'node:os';
import { createClient } from 'redis';

const TWO_DAYS = 2 * 24 * 60 * 60;

/**
 * Claims the run of one calendar day. The claim is never given back: servers
 * whose cron fires late find it and leave, and a digest that broke half-way is
 * not sent a second time (support re-sends by hand from the outbox).
 */
async function claimDay(client, day) {
  const reply = await client.set(`cron:nightly-digest:${day}`, `${hostname()}:${process.pid}`, {
    condition: 'NX',
    expiration: { type: 'EX', value: TWO_DAYS },
  });
  return reply === 'OK';
}

/**
 * @param {{
 *   subscribers(day: string): AsyncIterable<{ id: string, email: string }>,
 *   render(subscriber: { id: string }, day: string): Promise<string>,
 *   send(email: string, body: string): Promise<void>,
 *   log: { info(msg: string): void, error(msg: string, err?: unknown): void },
 * }} deps
 */
export async function runNightlyDigest(deps, now = new Date()) {
  const day = now.toISOString().slice(0, 10);
  const client = createClient({
    url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379',
    // cron must not hang: give up after a handful of tries
    socket: { reconnectStrategy: (tries) => (tries > 5 ? new Error('redis is not there') : tries * 200) },
  });
  client.on('error', (err) => deps.log.error('redis', err));
  await client.connect();

  let mine;
  try {
    mine = await claimDay(client, day);
  } finally {
    // not needed while mails go out
    await client.close();
  }
  if (!mine) {
    deps.log.info(`digest of ${day} is done elsewhere`);
    return { ran: false, sent: 0, failed: 0 };
  }

  let sent = 0;
  let failed = 0;
  for await (const subscriber of deps.subscribers(day)) {
    try {
      const body = await deps.render(subscriber, day);
      await deps.send(subscriber.email, body);
      sent++;
    } catch (err) {
      failed++;
      deps.log.error(`digest for ${subscriber.id}`, err);
    }
  }
  deps.log.info(`digest of ${day}: ${sent} sent, ${failed} failed`);
  return { ran: true, sent, failed };
}
