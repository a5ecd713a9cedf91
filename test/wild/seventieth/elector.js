// Leader election on one Redis, node-redis client passed in (v4 or v5).
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

const CLAIM = `
local cur = redis.call('GET', KEYS[1])
if not cur then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class Elector {
  #client;
  #key;
  #ttl;
  #onElected;
  #id = randomUUID();
  #term = null; // { controller, timer, until, done }
  #stopping = false;
  #loop = null;

  /**
   * @param onElected async (signal) => void. Runs for one term of office and must return
   *                  soon after `signal` aborts (a fifth of the ttl is left for that).
   */
  constructor(client, { key, ttlMs = 15000, onElected }) {
    this.#client = client;
    this.#key = key;
    this.#ttl = ttlMs;
    this.#onElected = onElected;
  }

  get isLeader() {
    const t = this.#term;
    return !!t && !t.controller.signal.aborted && performance.now() < t.until;
  }

  start() {
    this.#loop ??= this.#run();
  }

  async stop() {
    this.#stopping = true;
    this.#endTerm();
    await this.#loop;
    await this.#term?.done;
    await this.#client
      .eval(RESIGN, { keys: [this.#key], arguments: [this.#id] })
      .catch((err) => console.warn('resign failed, lease will lapse:', err.message));
  }

  async #run() {
    while (!this.#stopping) {
      try {
        await this.#tick();
      } catch (err) {
        console.warn('election tick failed:', err.message);
      }
      await delay(this.#ttl / 5);
    }
  }

  async #tick() {
    // a former term whose callback is still winding down: do not stand again yet
    if (this.#term?.controller.signal.aborted) return;

    const sentAt = performance.now();
    const reply = await this.#client.eval(CLAIM, {
      keys: [this.#key],
      arguments: [this.#id, String(this.#ttl)],
    });
    const until = sentAt + this.#ttl * 0.8;
    if (Number(reply) !== 1 || performance.now() >= until || this.#stopping) {
      this.#endTerm();
      return;
    }
    if (!this.#term) this.#beginTerm(until);
    else if (!this.#term.controller.signal.aborted) this.#arm(this.#term, until);
  }

  #beginTerm(until) {
    const term = { controller: new AbortController(), timer: null, until, done: null };
    this.#term = term;
    this.#arm(term, until);
    term.done = Promise.resolve()
      .then(() => this.#onElected(term.controller.signal))
      .catch((err) => console.error('leader callback:', err))
      .finally(() => {
        clearTimeout(term.timer);
        term.controller.abort();
        if (this.#term === term) this.#term = null;
      });
  }

  #arm(term, until) {
    term.until = until;
    clearTimeout(term.timer);
    term.timer = setTimeout(() => term.controller.abort(), until - performance.now());
  }

  #endTerm() {
    this.#term?.controller.abort();
  }
}
