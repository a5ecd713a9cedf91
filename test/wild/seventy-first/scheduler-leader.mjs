import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import pino from 'pino';

const log = pino({ name: 'scheduler' });

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
 * Scheduler for recurring jobs. All replicas run it, the leader enqueues.
 *
 * jobs: [{ name, everyMs, run }]
 */
export class Scheduler {
  #client;
  #id = randomUUID();
  #key;
  #ttl;
  #jobs;
  #leader = false;
  #heartbeat = null;
  #ticker = null;
  #lastRun = new Map();

  constructor({ client, jobs, key = 'scheduler:leader', ttl = 10_000 }) {
    this.#client = client ?? createClient({ url: process.env.REDIS_URL });
    this.#client.on('error', (err) => log.error({ err }, 'redis'));
    this.#jobs = jobs;
    this.#key = key;
    this.#ttl = ttl;
  }

  get isLeader() {
    return this.#leader;
  }

  async start() {
    if (!this.#client.isOpen) await this.#client.connect();
    await this.#beat();
    this.#heartbeat = setInterval(() => this.#beat(), this.#ttl / 3);
    this.#ticker = setInterval(() => this.#tick(), 1_000);
  }

  async #beat() {
    try {
      if (this.#leader) {
        await this.#client.eval(RENEW, {
          keys: [this.#key],
          arguments: [this.#id, String(this.#ttl)],
        });
        return;
      }
      const won = await this.#client.set(this.#key, this.#id, { NX: true, PX: this.#ttl });
      if (won === 'OK') {
        this.#leader = true;
        log.info({ id: this.#id }, 'elected');
      }
    } catch (err) {
      log.warn({ err }, 'heartbeat failed');
    }
  }

  async #tick() {
    if (!this.#leader) return;
    const now = Date.now();
    for (const job of this.#jobs) {
      if (!this.#leader) return;
      const last = this.#lastRun.get(job.name) ?? 0;
      if (now - last < job.everyMs) continue;
      this.#lastRun.set(job.name, now);
      try {
        await job.run();
        log.debug({ job: job.name }, 'enqueued');
      } catch (err) {
        log.error({ err, job: job.name }, 'job failed');
      }
    }
  }

  async stop() {
    clearInterval(this.#heartbeat);
    clearInterval(this.#ticker);
    if (this.#leader) {
      this.#leader = false;
      await this.#client
        .eval(RESIGN, { keys: [this.#key], arguments: [this.#id] })
        .catch((err) => log.warn({ err }, 'resign failed'));
      log.info({ id: this.#id }, 'resigned');
    }
    await this.#client.quit();
  }
}
