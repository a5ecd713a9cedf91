import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

/**
 * Only one gateway per site may poll the Modbus sensors, the bus has no arbitration.
 * The gateways elect that one through Redis; the spare takes over when it goes silent.
 *
 *   const election = await joinElection('plant-7');
 *   election.on('elected', () => poller.start());
 *   election.on('deposed', () => poller.stop());
 */

const LEASE_MS = 12_000;
const HEARTBEAT_MS = 4_000;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class GatewayElection extends EventEmitter {
  #client;
  #key;
  #id = randomUUID();
  #leading = false;
  #validUntil = 0;
  #timer = null;
  #deadline = null;
  #stopped = false;
  #beating = Promise.resolve();

  constructor(client, site) {
    super();
    this.#client = client;
    this.#key = `site:${site}:bus-master`;
  }

  get isLeader() {
    return this.#leading && performance.now() < this.#validUntil;
  }

  start() {
    this.#schedule(0);
    return this;
  }

  async stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#beating;
    this.#step(false);
    await this.#client.eval(RESIGN, { keys: [this.#key], arguments: [this.#id] });
  }

  #schedule(delay) {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat().finally(() => this.#schedule(HEARTBEAT_MS));
    }, delay);
  }

  async #beat() {
    const sentAt = performance.now();
    try {
      const reply = this.#leading
        ? await this.#client.set(this.#key, this.#id, { XX: true, PX: LEASE_MS })
        : await this.#client.set(this.#key, this.#id, { NX: true, PX: LEASE_MS });
      this.#step(reply === 'OK', sentAt);
    } catch (err) {
      console.error(`[${this.#key}] heartbeat failed: ${err.message}`);
    }
  }

  #step(leading, sentAt = 0) {
    const before = this.#leading;
    this.#leading = leading;
    clearTimeout(this.#deadline);
    if (leading) {
      // Let go of the bus a second early if no further heartbeat gets through.
      this.#validUntil = sentAt + LEASE_MS - 1_000;
      this.#deadline = setTimeout(() => this.#step(false), Math.max(0, this.#validUntil - performance.now()));
    }
    if (before !== leading) {
      console.info(`[${this.#key}] ${this.#id} ${leading ? 'is bus master' : 'is on standby'}`);
      this.emit(leading ? 'elected' : 'deposed');
    }
  }
}

export async function joinElection(site, url = process.env.REDIS_URL) {
  const client = createClient({ url });
  client.on('error', (err) => console.error('[election] redis:', err.message));
  await client.connect();

  const election = new GatewayElection(client, site).start();
  process.once('SIGTERM', async () => {
    await election.stop().catch(() => {});
    await client.quit().catch(() => {});
  });
  return election;
}
