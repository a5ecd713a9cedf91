import { EventEmitter } from 'node:events';
import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';

const CLAIM = `
local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if v then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/**
 * Leader election on one Redis.
 *
 *   const e = new Election(client, 'reports');
 *   e.on('elected', (signal) => ...);
 *   e.on('deposed', () => ...);
 *   e.start();
 *
 * `client` is a connected client of the `redis` package. A leader steps down
 * by its own monotonic clock a while before its key can expire, whether or not
 * Redis can be reached. What the leader does should look at isLeader() before
 * each step, and a step must be harmless when done twice.
 */
export class Election extends EventEmitter {
  #id = randomBytes(16).toString('hex');
  #until = 0;
  #term = null;
  #deposeTimer = null;
  #loop = null;
  #stopped = true;
  #wake = () => {};

  constructor(client, name, { ttl = 15_000, margin = 3_000, every = 4_000 } = {}) {
    super();
    if (ttl <= margin + every) throw new RangeError('ttl must exceed margin + every');
    Object.assign(this, { client, key: `leader:${name}`, ttl, margin, every });
  }

  isLeader() {
    return this.#term !== null && performance.now() < this.#until;
  }

  start() {
    if (this.#loop) throw new Error('an Election can be started once');
    this.#stopped = false;
    this.#loop = this.#run();
  }

  async stop() {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#depose('stopped');
    this.#wake();
    await this.#loop;
    await this.client
      .eval(RESIGN, { keys: [this.key], arguments: [this.#id] })
      .catch((err) => this.emit('warning', err));
  }

  async #run() {
    while (!this.#stopped) {
      const asked = performance.now();
      try {
        const mine = await this.client.eval(CLAIM, {
          keys: [this.key],
          arguments: [this.#id, String(this.ttl)],
        });
        if (this.#stopped) break;
        if (Number(mine) === 1) this.#confirm(asked + this.ttl - this.margin);
        else this.#depose('taken over');
      } catch (err) {
        this.emit('warning', err);
      }
      if (this.#stopped) break;
      await new Promise((resolve) => {
        const t = setTimeout(resolve, this.every * (0.8 + Math.random() * 0.2));
        this.#wake = () => { clearTimeout(t); resolve(); };
      });
    }
  }

  #confirm(until) {
    const now = performance.now();
    if (this.#term && now >= this.#until) this.#depose('lease ran out');
    if (now >= until) return;
    this.#until = until;
    clearTimeout(this.#deposeTimer);
    this.#deposeTimer = setTimeout(() => this.#depose('lease ran out'), until - now);
    if (!this.#term) {
      this.#term = new AbortController();
      this.emit('elected', this.#term.signal);
    }
  }

  #depose(reason) {
    clearTimeout(this.#deposeTimer);
    if (!this.#term) return;
    const term = this.#term;
    this.#term = null;
    this.#until = 0;
    term.abort(new Error(`no longer leader: ${reason}`));
    this.emit('deposed', reason);
  }
}
