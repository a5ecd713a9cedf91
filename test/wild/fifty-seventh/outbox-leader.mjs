import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import Redis from 'ioredis';
import pino from 'pino';
import { OutboxRelay } from './outbox-relay.mjs';

const log = pino({ name: 'outbox-leader' });

const KEY = process.env.LEADER_KEY ?? 'outbox:leader';
const LEASE_MS = 15_000;
const TICK_MS = 5_000;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Exactly one instance relays the outbox to Kafka, in order. The others stand by and try
 * to become leader with every tick.
 *
 * Emits 'elected' and 'deposed'.
 */
export class LeaderElection extends EventEmitter {
  #redis;
  #id = `${os.hostname()}:${process.pid}:${randomUUID()}`;
  #leader = false;
  #stopped = false;
  #timer;

  constructor(redis) {
    super();
    this.#redis = redis;
  }

  get isLeader() {
    return this.#leader;
  }

  start() {
    const loop = async () => {
      await this.#tick();
      if (!this.#stopped) this.#timer = setTimeout(loop, TICK_MS);
    };
    loop();
  }

  async #tick() {
    try {
      if (this.#leader) {
        // 0 means that the key is gone, so somebody else may take over
        const renewed = await this.#redis.pexpire(KEY, LEASE_MS);
        if (renewed === 0) this.#depose('lease expired');
        return;
      }
      const won = await this.#redis.set(KEY, this.#id, 'PX', LEASE_MS, 'NX');
      if (won === 'OK') {
        this.#leader = true;
        log.info({ id: this.#id }, 'elected');
        this.emit('elected');
      }
    } catch (err) {
      log.warn({ err }, 'leader tick failed');
      if (this.#leader) this.#depose('redis unreachable');
    }
  }

  #depose(reason) {
    this.#leader = false;
    log.warn({ id: this.#id, reason }, 'deposed');
    this.emit('deposed');
  }

  async stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    if (!this.#leader) return;
    this.#depose('shutdown');
    await this.#redis.eval(RESIGN, 1, KEY, this.#id).catch((err) => log.warn({ err }, 'resign failed'));
  }
}

// commandTimeout + tick stay below the lease, so a leader cut off from Redis notices in time
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 3_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => log.debug({ err }, 'redis'));

const relay = new OutboxRelay({ batchSize: 200 });
const election = new LeaderElection(redis);
election.on('elected', () => relay.start());
election.on('deposed', () => relay.stop());
election.start();

process.once('SIGTERM', async () => {
  // hand over only after the last batch is acknowledged
  relay.stop();
  await relay.drained();
  await election.stop();
  redis.disconnect();
});
