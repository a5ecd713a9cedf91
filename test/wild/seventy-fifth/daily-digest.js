/**
 * Daily digest, 06:00 UTC. Runs in every replica of the api (we have no extra
 * cron machine), so the replicas agree in Redis on who sends it.
 *
 * At most once per day. A digest that arrives twice makes people unsubscribe, one that is
 * missing is noticed by nobody but us, so a slot that was claimed is never given
 * back, not even when sending fails in the middle. Then #ops gets the alert and runs
 * `npm run digest:resume -- <slot>`, which goes by the digest_log table.
 *
 * Needs Redis 7 (SET with NX and GET together).
 */
const os = require('os');
const { randomUUID } = require('crypto');
const Redis = require('ioredis');
const { CronJob } = require('cron');
const db = require('../db');
const log = require('../logger');
const { alertOps } = require('../alerts');
const { sendDigest } = require('../mail/digest');

const KEEP_SECONDS = 3 * 24 * 60 * 60;

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 3 });
redis.on('error', (err) => log.warn({ err }, 'digest: redis'));

// The UTC date. 06:00 is far from midnight, so it does not matter that the clocks differ a
// little or that a replica is late because it was stuck.
function slotOf(time) {
  return new Date(time).toISOString().slice(0, 10);
}

async function claim(slot) {
  const me = `${os.hostname()}/${randomUUID()}`;
  const before = await redis.set(`digest:slot:${slot}`, me, 'EX', KEEP_SECONDS, 'NX', 'GET');
  // null: it was free and is ours now. Our own id: ioredis has sent the command once
  // more after a reconnect and the first one had gone through.
  return before === null || before === me;
}

async function tick() {
  const slot = slotOf(Date.now());
  let ours;
  try {
    ours = await claim(slot);
  } catch (err) {
    log.error({ err, slot }, 'digest: cannot tell whether the slot is ours, leaving it');
    await alertOps(`digest ${slot}: claim failed on ${os.hostname()}`);
    return;
  }
  if (!ours) {
    log.debug({ slot }, 'digest: another replica does it');
    return;
  }

  let sent = 0;
  try {
    for await (const user of db.users.iterate({ digest: true, active: true })) {
      await db.digestLog.insert({ slot, userId: user.id });
      await sendDigest(user, slot);
      sent += 1;
    }
    log.info({ slot, sent }, 'digest: done');
  } catch (err) {
    log.error({ err, slot, sent }, 'digest: broke off');
    await alertOps(`digest ${slot}: stopped after ${sent} mails`);
  }
}

const job = new CronJob('0 0 6 * * *', () => tick().catch((err) => log.error({ err }, 'digest')), null, false, 'UTC');

module.exports = {
  start: () => job.start(),
  stop: async () => {
    job.stop();
    await redis.quit();
  },
};
