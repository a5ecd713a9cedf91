'use strict';

// "No dependencies" challenge, day 12: a Redis lock with nothing but node:net.

const net = require('node:net');
const { randomBytes } = require('node:crypto');

class TinyRedis {
  constructor({ host = '127.0.0.1', port = 6379, timeout = 500 } = {}) {
    this.timeout = timeout;
    this.pending = [];
    this.buffer = Buffer.alloc(0);
    this.socket = net.connect({ host, port, noDelay: true });
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('connection closed')));
  }

  command(...args) {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('connection closed'));
      const entry = { resolve, reject };
      entry.timer = setTimeout(() => {
        this.pending.splice(this.pending.indexOf(entry), 1);
        reject(new Error(`${args[0]} timed out after ${this.timeout} ms`));
      }, this.timeout);
      this.pending.push(entry);

      const parts = args.map(String).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
      this.socket.write(`*${parts.length}\r\n${parts.join('')}`);
    });
  }

  onData(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    let reply;
    while ((reply = this.parse())) {
      this.buffer = this.buffer.subarray(reply.end);
      const entry = this.pending.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (reply.value instanceof Error) entry.reject(reply.value);
      else entry.resolve(reply.value);
    }
  }

  // Simple strings, errors, integers and bulk strings; we do not need more. null: not complete yet
  parse() {
    const eol = this.buffer.indexOf('\r\n');
    if (eol === -1) return null;
    const line = this.buffer.toString('utf8', 1, eol);
    const end = eol + 2;
    switch (String.fromCharCode(this.buffer[0])) {
      case '+':
        return { value: line, end };
      case '-':
        return { value: new Error(line), end };
      case ':':
        return { value: Number(line), end };
      case '$': {
        const size = Number(line);
        if (size === -1) return { value: null, end };
        if (this.buffer.length < end + size + 2) return null;
        return { value: this.buffer.toString('utf8', end, end + size), end: end + size + 2 };
      }
      default:
        this.socket.destroy(new Error('unexpected reply type'));
        return null;
    }
  }

  fail(err) {
    for (const { reject, timer } of this.pending.splice(0)) {
      clearTimeout(timer);
      reject(err);
    }
  }
}

const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end return 0';

async function lock(redis, name, ms) {
  const token = randomBytes(16).toString('hex');
  const until = Date.now() + ms;
  const reply = await redis.command('SET', `lock:${name}`, token, 'NX', 'PX', ms);
  if (reply !== 'OK') return null;
  return {
    until,
    signal: AbortSignal.timeout(Math.max(0, until - Date.now() - ms * 0.1)),
    unlock: () => redis.command('EVAL', UNLOCK, 1, `lock:${name}`, token),
  };
}

module.exports = { TinyRedis, lock };
