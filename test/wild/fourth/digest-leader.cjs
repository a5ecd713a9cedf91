const { randomUUID } = require('crypto');
const EventEmitter = require('events');

const LEADER_TTL_SEC = 10;
const HEARTBEAT_MS = 15 * 1000;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class DigestLeader extends EventEmitter {
  /** @param {import('ioredis').Redis} redis */
  constructor(redis, name = 'digest') {
    super();
    this.redis = redis;
    this.key = `leader:${name}`;
    this.id = null;
    this.timer = null;
    this.busy = false;
  }

  get isLeader() {
    return this.id !== null;
  }

  start() {
    if (this.timer) return;
    this.timer = setInterval(() => this.beat(), HEARTBEAT_MS);
    this.beat();
  }

  async stop() {
    clearInterval(this.timer);
    this.timer = null;
    const id = this.id;
    this.id = null;
    if (id) await this.redis.eval(RESIGN, 1, this.key, id);
  }

  stepDown(reason) {
    if (!this.isLeader) return;
    this.id = null;
    this.emit('follower', reason);
  }

  async beat() {
    if (this.busy) return;
    this.busy = true;
    try {
      if (this.isLeader) {
        const kept = await this.redis.eval(RENEW, 1, this.key, this.id, LEADER_TTL_SEC);
        if (kept === 1) return;
        this.stepDown('expired');
      }
      const candidate = randomUUID();
      const reply = await this.redis.set(this.key, candidate, 'EX', LEADER_TTL_SEC, 'NX');
      if (reply !== 'OK') return;
      if (!this.timer) {
        await this.redis.eval(RESIGN, 1, this.key, candidate);
        return;
      }
      this.id = candidate;
      this.emit('leader');
    } catch (err) {
      this.stepDown(err.message);
    } finally {
      this.busy = false;
    }
  }
}

async function runDigest(leader, subscribers, deliver) {
  let sent = 0;
  for (const subscriber of subscribers) {
    if (!leader.isLeader) break;
    await deliver(subscriber);
    sent += 1;
  }
  return sent;
}

module.exports = { DigestLeader, runDigest };
