import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { logger } from './logger.mjs';
import { OutboxRelay } from './outbox.mjs';

const LEASE_MS = Number(process.env.LEADER_LEASE_MS ?? 15_000);
const TICK_MS = Math.floor(LEASE_MS / 3);

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

/** emits 'elected' and 'deposed' */
export class LeaderElection extends EventEmitter {
  constructor(client, group) {
    super();
    this.client = client;
    this.key = `leader:${group}`;
    this.id = `${hostname()}-${randomUUID()}`;
    this.isLeader = false;
    this.stopped = false;
  }

  start() {
    this.loop = this.#run();
  }

  async #run() {
    while (!this.stopped) {
      await this.#tick();
      await new Promise((r) => {
        this.wake = r;
        this.timer = setTimeout(r, TICK_MS);
      });
    }
  }

  async #tick() {
    try {
      if (this.isLeader) {
        const renewed = await this.client.eval(RENEW, {
          keys: [this.key],
          arguments: [this.id, String(LEASE_MS)],
        });
        if (renewed !== 1) this.#set(false);
      } else {
        const won = await this.client.set(this.key, this.id, { NX: true, PX: LEASE_MS });
        if (won === 'OK') this.#set(true);
      }
    } catch (err) {
      logger.warn({ err, key: this.key, isLeader: this.isLeader }, 'election tick failed, next try soon');
    }
  }

  #set(isLeader) {
    if (this.isLeader === isLeader) return;
    this.isLeader = isLeader;
    logger.info({ id: this.id, key: this.key }, isLeader ? 'elected' : 'deposed');
    this.emit(isLeader ? 'elected' : 'deposed');
  }

  async stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.wake?.();
    await this.loop;
    if (!this.isLeader) return;
    this.#set(false);
    await this.client.eval(RESIGN, { keys: [this.key], arguments: [this.id] });
  }
}

const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
client.on('error', (err) => logger.warn({ err }, 'redis error'));
await client.connect();

// The relay reads the outbox table and posts to the partners' webhooks, in
// order. Partners do not deduplicate, so only one pod may do this.
const relay = new OutboxRelay();
const election = new LeaderElection(client, 'outbox-relay');
election.on('elected', () => relay.start());
election.on('deposed', () => relay.stop());
election.start();

process.once('SIGTERM', async () => {
  try {
    await relay.drain();
    await election.stop();
    await client.quit();
  } finally {
    process.exit(0);
  }
});
