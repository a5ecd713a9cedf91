import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

// 0: somebody else leads, 1: our lease was prolonged, 2: a new lease is ours
const CAMPAIGN = `
local holder = redis.call('GET', KEYS[1])
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 2
end
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Leader election for a handful of replicas (node-redis v5).
 *
 *   const election = new LeaderElection(client, 'billing-scheduler', {
 *     async onElected(signal) {
 *       while (!signal.aborted) { await runDueJobs({ signal }); await pause(1000, signal); }
 *     },
 *   });
 *   election.start();
 *   process.once('SIGTERM', () => election.stop().then(() => client.close()));
 *
 * Events: "elected", "demoted", "warning"
 */
export class LeaderElection extends EventEmitter {
  #client;
  #key;
  #ttl;
  #margin;
  #onElected;
  #token = `${hostname()}:${process.pid}:${randomUUID()}`;
  #stop = new AbortController();
  #loop;
  #term = null;

  constructor(client, name, { ttl = 15_000, margin = 2_000, onElected }) {
    super();
    this.#client = client;
    this.#key = `leader:${name}`;
    this.#ttl = ttl;
    this.#margin = margin;
    this.#onElected = onElected;
  }

  get isLeader() {
    const term = this.#term;
    return term !== null && !term.controller.signal.aborted && performance.now() < term.until;
  }

  start() {
    this.#loop ??= this.#run();
    return this;
  }

  /** Ends our term (waits for the callback to return) and gives the key back. */
  async stop() {
    this.#stop.abort();
    await this.#loop;
    await this.#endTerm('stopping');
    await this.#client
      .eval(RESIGN, { keys: [this.#key], arguments: [this.#token] })
      .catch((err) => this.emit('warning', err));
  }

  async #run() {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#turn();
      } catch (err) {
        // No answer from Redis. The deadline of the term still stands.
        this.emit('warning', err);
      }
      await sleep(this.#ttl / 4, undefined, { signal: this.#stop.signal }).catch(() => {});
    }
  }

  async #turn() {
    const sent = performance.now();
    const code = await this.#client.eval(CAMPAIGN, {
      keys: [this.#key],
      arguments: [this.#token, String(this.#ttl)],
    });

    // A term is one unbroken lease. When it broke, the old callback has to
    // return before this process may stand again.
    if (this.#term && (code !== 1 || this.#term.controller.signal.aborted)) {
      await this.#endTerm('lease lost');
      return;
    }
    const until = sent + this.#ttl - this.#margin;
    if (code === 0 || until <= performance.now()) return;

    if (!this.#term) this.#beginTerm();
    this.#arm(this.#term, until);
  }

  #beginTerm() {
    const controller = new AbortController();
    const term = { controller, until: 0, timer: undefined, done: undefined };
    this.#term = term;
    this.emit('elected');
    term.done = Promise.resolve()
      .then(() => this.#onElected(controller.signal))
      .catch((err) => {
        if (!controller.signal.aborted) this.emit('warning', err);
      });
  }

  #arm(term, until) {
    term.until = until;
    clearTimeout(term.timer);
    term.timer = setTimeout(
      () => term.controller.abort(new Error('lease ran out')),
      Math.max(0, until - performance.now()),
    );
  }

  async #endTerm(reason) {
    const term = this.#term;
    if (!term) return;
    clearTimeout(term.timer);
    term.controller.abort(new Error(reason));
    await term.done;
    this.#term = null;
    this.emit('demoted', reason);
  }
}
