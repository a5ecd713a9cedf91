import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const SHARDS = 16;
const LEASE_MS = 45_000;
const SEND_TIMEOUT_MS = 5_000;
const SPARE_MS = 5_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export function createRedis(url = process.env.REDIS_URL) {
  return new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 1_500 });
}

/**
 * Sends appointment reminders by SMS. Accounts are spread over 16 shards; every worker goes through
 * all shards in random order and works on those which nobody else works on. The SMS gateway charges for
 * each message and does not recognise repetitions.
 */
export class ReminderShards {
  constructor({ redis, reminders, sms, log, metrics }) {
    this.redis = redis;
    this.reminders = reminders;
    this.sms = sms;
    this.log = log;
    this.metrics = metrics;
  }

  async runOnce() {
    let sent = 0;
    for (const shard of shuffled(SHARDS)) {
      const lease = await this.#lease(shard);
      if (!lease) {
        this.metrics.increment('reminders.shard_busy');
        continue;
      }
      if (lease.paused) {
        await this.#release(lease);
        continue;
      }
      try {
        sent += await this.#work(shard, lease);
      } catch (err) {
        this.log.error({ err, shard }, 'shard failed');
      } finally {
        await this.#release(lease);
      }
    }
    return sent;
  }

  async #lease(shard) {
    const key = `reminders:shard:${shard}`;
    const token = randomUUID();
    const askedAt = performance.now();

    // one round trip for the claim and the shard's pause switch
    const [claim, paused] = await this.redis
      .multi()
      .set(key, token, 'PX', LEASE_MS, 'NX')
      .get(`reminders:paused:${shard}`)
      .exec();

    if (!claim) {
      return null;
    }
    return {
      key,
      token,
      paused: paused[1] === '1',
      leftMs: () => askedAt + LEASE_MS - performance.now(),
    };
  }

  async #release(lease) {
    try {
      await this.redis.eval(RELEASE, 1, lease.key, lease.token);
    } catch (err) {
      this.log.warn({ err, key: lease.key }, 'shard lease left to expire');
    }
  }

  async #work(shard, lease) {
    const due = await this.reminders.due(shard, { limit: 200 });
    let sent = 0;

    for (const reminder of due) {
      if (lease.leftMs() < SEND_TIMEOUT_MS + SPARE_MS) {
        this.log.info({ shard, rest: due.length - sent }, 'lease is nearly over, the rest comes next time');
        break;
      }
      await this.sms.send(reminder.phone, reminder.text, { timeoutMs: SEND_TIMEOUT_MS });
      await this.reminders.markSent(reminder.id);
      sent += 1;
    }

    this.metrics.increment('reminders.sent', sent);
    return sent;
  }
}

function shuffled(n) {
  const list = Array.from({ length: n }, (_, i) => i);
  for (let i = list.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
  return list;
}
