import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { createClient } from 'redis';

/*
 * Account statements (camt.053) leave the bank through one process. All instances of this
 * service campaign; the leader polls the outbox and hands files to the SWIFT gateway, the
 * rest are on standby. The gateway does not deduplicate.
 */
const KEY = 'statement-export:leader';
const LEASE_MS = 30_000;
const TICK_MS = 5_000;
const MARGIN_MS = 12_000; // two ticks
const REPLY_MS = 2_000;

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

function inTime(reply) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no reply from redis')), REPLY_MS);
  });
  return Promise.race([reply, late]).finally(() => clearTimeout(timer));
}

export class ExportLeader {
  #id = `${hostname()}:${randomUUID()}`;
  #client;
  #onElected;
  #term = null;
  #validUntil = 0;
  #timer;
  #stopped = false;

  /** @param onElected called with an AbortSignal that fires when the term ends */
  constructor(url, onElected) {
    this.#client = createClient({ url, disableOfflineQueue: true });
    this.#client.on('error', (err) => console.error('redis', err.message));
    this.#onElected = onElected;
  }

  async start() {
    await this.#client.connect();
    await this.#tick();
  }

  async stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#stepDown('shutdown');
    await this.#client.eval(RESIGN, { keys: [KEY], arguments: [this.#id] });
    await this.#client.quit();
  }

  async #tick() {
    try {
      if (this.#term) await this.#renew();
      else await this.#campaign();
    } catch (err) {
      console.error('leader tick', err.message);
      if (this.#term && performance.now() >= this.#validUntil) this.#stepDown('redis unreachable');
    }
    if (!this.#stopped) this.#timer = setTimeout(() => this.#tick(), TICK_MS);
  }

  async #campaign() {
    const askedAt = performance.now();
    const won = await inTime(this.#client.set(KEY, this.#id, { NX: true, PX: LEASE_MS }));
    if (won !== 'OK' || this.#stopped) return;
    this.#validUntil = askedAt + LEASE_MS - MARGIN_MS;
    this.#term = new AbortController();
    console.info('elected', this.#id);
    this.#onElected(this.#term.signal).catch((err) => this.#stepDown(err.message));
  }

  async #renew() {
    const askedAt = performance.now();
    const renewed = await inTime(this.#client.eval(RENEW, { keys: [KEY], arguments: [this.#id, String(LEASE_MS)] }));
    if (renewed === null) {
      this.#stepDown('lease is no longer ours');
      return;
    }
    this.#validUntil = askedAt + LEASE_MS - MARGIN_MS;
  }

  #stepDown(reason) {
    if (!this.#term) return;
    console.warn('stepping down:', reason);
    this.#term.abort(new Error(reason));
    this.#term = null;
  }
}
