'use strict';
// tiny-redis-lock: a lease in Redis, zero dependencies (speaks RESP by itself).
//
//   const { TinyLock } = require('tiny-redis-lock');
//   const locks = new TinyLock({ host: 'redis', password: '...' });
//   const lease = await locks.lock('thumbs:17', { ttl: 8000 });
//   if (!lease) return;
//   ... do it, calling lease.extend() on the way, stop when that gives false
//   await lease.unlock();

const net = require('net');
const crypto = require('crypto');

const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end return 0';
const EXTEND = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) end return 0';

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const a of args.map(String)) out += `$${Buffer.byteLength(a)}\r\n${a}\r\n`;
  return out;
}

/** one reply from the front of buf: [value, bytesUsed], or null when incomplete */
function decode(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol === -1) return null;
  const line = buf.toString('utf8', 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case '+':
    case '-':
      return [line, next];
    case ':':
      return [Number(line), next];
    case '$': {
      const len = Number(line);
      if (len === -1) return [null, next];
      if (buf.length < next + len + 2) return null;
      return [buf.toString('utf8', next, next + len), next + len + 2];
    }
    default:
      throw new Error('unexpected reply type');
  }
}

class Connection {
  constructor({ host = '127.0.0.1', port = 6379, password, timeout = 3000 }) {
    Object.assign(this, { host, port, password, timeout });
    this.socket = null;
  }

  open() {
    const socket = net.connect(this.port, this.host);
    let buf = Buffer.alloc(0);
    this.waiting = [];
    const waiting = this.waiting;
    const fail = (err) => {
      if (this.socket === socket) this.socket = null;
      socket.destroy();
      for (const w of waiting.splice(0)) w.reject(err);
    };
    socket.setNoDelay(true);
    socket.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      try {
        for (let r = decode(buf); r; r = decode(buf)) {
          buf = buf.subarray(r[1]);
          waiting.shift().resolve(r[0]);
        }
      } catch (err) {
        fail(err);
      }
    });
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('redis closed the connection')));
    this.socket = socket;
    this.fail = fail;
    if (this.password) this.call('AUTH', this.password).catch(() => {});
  }

  call(...args) {
    if (!this.socket) this.open();
    const fail = this.fail;
    return new Promise((resolve, reject) => {
      // answers come in order, so after a timeout this socket is of no use any more
      const timer = setTimeout(() => fail(new Error(`${args[0]} timed out`)), this.timeout);
      const settle = (fn) => (v) => (clearTimeout(timer), fn(v));
      this.waiting.push({ resolve: settle(resolve), reject: settle(reject) });
      this.socket.write(encode(args));
    });
  }
}

class TinyLock {
  constructor(options = {}) {
    this.conn = new Connection(options);
    this.prefix = options.prefix || 'tiny:';
  }

  /** the lease, or null if it is taken and `wait` ms have passed */
  async lock(name, { ttl = 10000, wait = 0, every = 100 } = {}) {
    const key = this.prefix + name;
    const token = crypto.randomBytes(16).toString('hex');
    const end = Date.now() + wait;
    for (;;) {
      const reply = await this.conn.call('SET', key, token, 'NX', 'PX', ttl);
      if (reply !== null) break;
      if (Date.now() >= end) return null;
      await new Promise((r) => setTimeout(r, every));
    }
    return {
      name,
      token,
      extend: async (ms = ttl) => (await this.conn.call('EVAL', EXTEND, 1, key, token, ms)) === 1,
      unlock: async () => (await this.conn.call('EVAL', UNLOCK, 1, key, token)) === 1,
    };
  }

  close() {
    if (this.conn.socket) this.conn.socket.end();
  }
}

module.exports = { TinyLock };
