import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const LEASE_MS = 12_000;
const CAMPAIGN_EVERY_MS = 3_000;
const SAFETY_MS = 2_000;
const BATCH = 100;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Dispatches the outbox from one replica at a time.
 *
 * Being leader keeps events in order and the replicas off each other's rows. For the seconds around a
 * change of leaders two replicas may both think they lead: rows are claimed with FOR UPDATE SKIP LOCKED
 * and consumers drop event ids they know, so that costs order at most, which consumers restore by `seq`.
 */
export class OutboxDispatcher {
  #redis;
  #outbox;
  #bus;
  #log;
  #key;
  #term = null; // { token, until }
  #stopped = false;
  #loops = [];

  constructor({ redis, outbox, bus, log, name = 'orders' }) {
    this.#redis = redis;
    this.#outbox = outbox;
    this.#bus = bus;
    this.#log = log;
    this.#key = `leader:outbox:${name}`;
  }

  static async connect(options) {
    const redis = createClient({
      url: process.env.REDIS_URL,
      disableOfflineQueue: true,
      socket: { connectTimeout: 2_000 },
    });
    redis.on('error', (err) => options.log.warn({ err }, 'outbox redis'));
    await redis.connect();
    return new OutboxDispatcher({ ...options, redis });
  }

  get leading() {
    return this.#term !== null && performance.now() < this.#term.until;
  }

  start() {
    this.#loops = [this.#campaignLoop(), this.#dispatchLoop()];
  }

  async stop() {
    this.#stopped = true;
    await Promise.allSettled(this.#loops);
    const term = this.#term;
    this.#term = null;
    if (term) {
      await this.#redis
        .eval(RESIGN, { keys: [this.#key], arguments: [term.token] })
        .catch((err) => this.#log.warn({ err }, 'did not resign, lease will run out'));
    }
  }

  async #campaignLoop() {
    while (!this.#stopped) {
      try {
        await this.#campaign();
      } catch (err) {
        // No news is not good news: `until` is left as it was and runs out.
        this.#log.warn({ err }, 'campaign failed');
      }
      await pause(CAMPAIGN_EVERY_MS);
    }
  }

  async #campaign() {
    const askedAt = performance.now();
    const until = askedAt + LEASE_MS - SAFETY_MS;

    if (this.#term) {
      const renewed = await this.#redis.eval(RENEW, {
        keys: [this.#key],
        arguments: [this.#term.token, String(LEASE_MS)],
      });
      if (Number(renewed) === 1) {
        this.#term.until = until;
        return;
      }
      this.#log.info({ token: this.#term.token }, 'no longer leader');
      this.#term = null;
      return;
    }

    const token = randomUUID();
    const reply = await this.#redis.set(this.#key, token, { NX: true, PX: LEASE_MS });
    if (reply === 'OK') {
      this.#term = { token, until };
      this.#log.info({ token }, 'leader now');
    }
  }

  async #dispatchLoop() {
    while (!this.#stopped) {
      if (!this.leading) {
        await pause(500);
        continue;
      }
      try {
        const sent = await this.#dispatchBatch();
        if (sent === 0) await pause(250);
      } catch (err) {
        this.#log.error({ err }, 'outbox batch failed');
        await pause(1_000);
      }
    }
  }

  /** One transaction: claim rows, publish, mark. Rows not published stay for the next leader. */
  async #dispatchBatch() {
    return this.#outbox.inTransaction(async (tx) => {
      const rows = await tx.claimUnsent(BATCH); // ORDER BY seq FOR UPDATE SKIP LOCKED
      const sent = [];
      for (const row of rows) {
        if (!this.leading || this.#stopped) break;
        await this.#bus.publish(row.topic, { id: row.event_id, seq: row.seq, payload: row.payload }, { timeoutMs: 1_500 });
        sent.push(row.seq);
      }
      if (sent.length > 0) await tx.markSent(sent);
      return sent.length;
    });
  }
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
