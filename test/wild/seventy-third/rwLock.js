const { randomUUID } = require('crypto');
const { createClient } = require('redis');

// Many readers or one writer, for the shared rule set files on the NFS share.

const LUA = {
  readLock: `
    if redis.call('EXISTS', KEYS[2]) == 1 then
      return 0
    end
    redis.call('INCR', KEYS[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    return 1`,
  readKeep: `
    return redis.call('PEXPIRE', KEYS[1], ARGV[1])`,
  readUnlock: `
    if redis.call('EXISTS', KEYS[1]) == 0 then
      return 0
    end
    local left = redis.call('DECR', KEYS[1])
    if left <= 0 then
      redis.call('DEL', KEYS[1])
    end
    return 1`,
  writeLock: `
    if redis.call('EXISTS', KEYS[1]) == 1 then
      return 0
    end
    if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[1]) then
      return 1
    end
    return 0`,
  writeKeep: `
    if redis.call('GET', KEYS[2]) == ARGV[2] then
      return redis.call('PEXPIRE', KEYS[2], ARGV[1])
    end
    return 0`,
  writeUnlock: `
    if redis.call('GET', KEYS[2]) == ARGV[2] then
      return redis.call('DEL', KEYS[2])
    end
    return 0`,
};

const wait = (ms) => new Promise((r) => setTimeout(r, ms));

class RwLock {
  constructor(opts = {}) {
    this.ttl = opts.ttl || 20000;
    this.maxWait = opts.maxWait || 60000;
    this.client = createClient({ url: opts.url || process.env.REDIS_URL });
    this.client.on('error', (e) => console.error('RwLock', e.message));
  }

  async open() {
    await this.client.connect();
    return this;
  }

  _run(script, name, token) {
    return this.client.eval(LUA[script], {
      keys: [`rw:{${name}}:readers`, `rw:{${name}}:writer`],
      arguments: [String(this.ttl), token],
    });
  }

  async _with(mode, name, fn) {
    const token = randomUUID();
    const until = Date.now() + this.maxWait;
    while ((await this._run(`${mode}Lock`, name, token)) !== 1) {
      if (Date.now() > until) {
        throw new Error(`timed out waiting for ${mode} lock on ${name}`);
      }
      await wait(50 + Math.floor(Math.random() * 50));
    }

    const ac = new AbortController();
    let last = Date.now();
    const timer = setInterval(async () => {
      const at = Date.now();
      if (at - last > this.ttl * 0.7) {
        ac.abort(new Error(`${mode} lock on ${name} could not be kept`));
        return;
      }
      try {
        const ok = await this._run(`${mode}Keep`, name, token);
        if (ok === 1) last = at;
        else ac.abort(new Error(`${mode} lock on ${name} is gone`));
      } catch (e) {
        console.warn('RwLock keep', e.message);
      }
    }, this.ttl / 5);

    try {
      return await fn(ac.signal);
    } finally {
      clearInterval(timer);
      await this._run(`${mode}Unlock`, name, token).catch((e) => console.warn('RwLock unlock', e.message));
    }
  }

  read(name, fn) {
    return this._with('read', name, fn);
  }

  write(name, fn) {
    return this._with('write', name, fn);
  }
}

module.exports = RwLock;
