const { EventEmitter } = require('events');
const { randomUUID } = require('crypto');

const RESIGN = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

function timeout(promise, ms) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/**
 * Elects one leader among all processes that use the same `key`.
 *
 * Events:
 *   elected   this process leads from now on
 *   demoted   this process no longer leads; stop whatever the leader does
 *
 * @example
 *   const election = new LeaderElection(client, { key: 'scheduler:leader' });
 *   election.on('elected', () => scheduler.start());
 *   election.on('demoted', () => scheduler.stop());
 *   election.start();
 */
class LeaderElection extends EventEmitter {
  /**
   * @param {import('redis').RedisClientType} client connected node-redis client
   * @param {{ key: string, ttl?: number, interval?: number, commandTimeout?: number }} options
   */
  constructor(client, { key, ttl = 15000, interval = 4000, commandTimeout = 2000 }) {
    super();
    if (interval + commandTimeout >= ttl) {
      throw new RangeError('interval + commandTimeout must be below ttl');
    }
    this.client = client;
    this.key = key;
    this.ttl = ttl;
    this.interval = interval;
    this.commandTimeout = commandTimeout;
    this.id = null;
    this.leading = false;
    this.running = false;
  }

  start() {
    if (this.running) return;
    this.running = true;
    this._tick();
  }

  async stop() {
    this.running = false;
    clearTimeout(this.timer);
    const id = this.id;
    this._demote();
    if (id) {
      await this.client
        .eval(RESIGN, { keys: [this.key], arguments: [id] })
        .catch((err) => this.emit('warning', err));
    }
  }

  async _tick() {
    try {
      if (this.leading) {
        await this._renew();
      } else {
        await this._campaign();
      }
    } catch (err) {
      this._demote();
      this.emit('warning', err);
    }
    if (this.running) {
      this.timer = setTimeout(() => this._tick(), this.interval);
    }
  }

  async _campaign() {
    const id = randomUUID();
    const reply = await timeout(
      this.client.set(this.key, id, { NX: true, PX: this.ttl }),
      this.commandTimeout,
    );
    if (reply !== 'OK') return;
    this.id = id;
    if (!this.running) return this.stop();
    this.leading = true;
    this.emit('elected');
  }

  async _renew() {
    const renewed = await timeout(
      this.client.pExpire(this.key, this.ttl),
      this.commandTimeout,
    );
    // The key is gone: we were too late and have to run again.
    if (!renewed) this._demote();
  }

  _demote() {
    this.id = null;
    if (!this.leading) return;
    this.leading = false;
    this.emit('demoted');
  }
}

module.exports = { LeaderElection };
