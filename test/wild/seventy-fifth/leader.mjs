/**
 * one-leader: elect one of your instances as the leader. For node-redis.
 *
 *   const election = new LeaderElection(client, { group: 'scheduler', ttl: 15 });
 *   election.on('elected', () => scheduler.start());
 *   election.on('demoted', () => scheduler.stop());
 *   election.on('error', (err) => log.warn(err));
 *   election.start();
 *   process.on('SIGTERM', () => election.stop());
 *
 * Options: group (string), ttl (seconds, default 15), id (default: random).
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class LeaderElection extends EventEmitter {
  #client;
  #key;
  #ttlMs;
  #timer = null;
  #expiry = null;
  #running = false;

  constructor(client, { group = 'default', ttl = 15, id = `${hostname()}-${randomUUID()}` } = {}) {
    super();
    this.#client = client;
    this.#key = `leader:${group}`;
    this.#ttlMs = ttl * 1000;
    this.id = id;
    this.isLeader = false;
  }

  start() {
    if (this.#running) return;
    this.#running = true;
    this.#campaign();
  }

  async stop() {
    this.#running = false;
    clearTimeout(this.#timer);
    if (!this.isLeader) return;
    this.#demote();
    await this.#client
      .eval(RESIGN, { keys: [this.#key], arguments: [this.id] })
      .catch((err) => this.emit('error', err));
  }

  /** Id of the present leader, or null. */
  current() {
    return this.#client.get(this.#key);
  }

  async #campaign() {
    const sentAt = performance.now();
    try {
      // a leader prolongs its term, all others try to get the free seat
      const reply = this.isLeader
        ? await this.#client.set(this.#key, this.id, { XX: true, PX: this.#ttlMs })
        : await this.#client.set(this.#key, this.id, { NX: true, PX: this.#ttlMs });

      if (!this.#running) return;
      if (reply === 'OK') this.#promote(sentAt);
      else if (this.isLeader) this.#demote();
    } catch (err) {
      // stay what we are for now, the expiry timer ends our term in time
      this.emit('error', err);
    } finally {
      if (this.#running) {
        const wait = this.#ttlMs / 3 + Math.random() * 200;
        this.#timer = setTimeout(() => this.#campaign(), wait);
      }
    }
  }

  #promote(sentAt) {
    clearTimeout(this.#expiry);
    const left = sentAt + this.#ttlMs * 0.9 - performance.now();
    if (left <= 0) return this.#demote();
    this.#expiry = setTimeout(() => this.#demote(), left);
    if (!this.isLeader) {
      this.isLeader = true;
      this.emit('elected');
    }
  }

  #demote() {
    clearTimeout(this.#expiry);
    if (!this.isLeader) return;
    this.isLeader = false;
    this.emit('demoted');
  }
}
