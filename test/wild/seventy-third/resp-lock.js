'use strict';

// Runs on the edge boxes, where we may not ship node_modules. Talks just enough
// RESP to take and give back a lock on the shared Redis.

const net = require('net');
const crypto = require('crypto');

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
const KEEP = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0";

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const a of args) {
    const s = String(a);
    out += `$${Buffer.byteLength(s)}\r\n${s}\r\n`;
  }
  return out;
}

// returns [value, nextOffset] or null if the reply is not complete yet
function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const head = buf.toString('utf8', 1, eol);
  switch (String.fromCharCode(buf[0])) {
    case '+':
      return [head, eol + 2];
    case '-':
      return [new Error(head), eol + 2];
    case ':':
      return [Number(head), eol + 2];
    case '$': {
      const len = Number(head);
      if (len === -1) return [null, eol + 2];
      const end = eol + 2 + len;
      if (buf.length < end + 2) return null;
      return [buf.toString('utf8', eol + 2, end), end + 2];
    }
    default:
      throw new Error('unsupported reply type');
  }
}

class MiniRedis {
  constructor({ host = '127.0.0.1', port = 6379, timeout = 400 } = {}) {
    this.timeout = timeout;
    this.waiting = [];
    this.buf = Buffer.alloc(0);
    this.socket = net.connect({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk) => this._onData(chunk));
    this.socket.on('error', (err) => this._fail(err));
    this.socket.on('close', () => this._fail(new Error('connection closed')));
  }

  command(...args) {
    return new Promise((resolve, reject) => {
      if (this.dead) return reject(this.dead);
      const entry = { resolve, reject };
      entry.timer = setTimeout(() => {
        const i = this.waiting.indexOf(entry);
        if (i >= 0) this.waiting.splice(i, 1);
        reject(new Error(`${args[0]} timed out`));
      }, this.timeout);
      this.waiting.push(entry);
      this.socket.write(encode(args));
    });
  }

  _onData(chunk) {
    this.buf = Buffer.concat([this.buf, chunk]);
    let parsed;
    while (this.buf.length && (parsed = parse(this.buf))) {
      this.buf = this.buf.subarray(parsed[1]);
      const entry = this.waiting.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (parsed[0] instanceof Error) entry.reject(parsed[0]);
      else entry.resolve(parsed[0]);
    }
  }

  _fail(err) {
    this.dead = err;
    for (const entry of this.waiting.splice(0)) {
      clearTimeout(entry.timer);
      entry.reject(err);
    }
  }
}

async function withLock(redis, name, ttl, work) {
  const key = `edge:lock:${name}`;
  const token = crypto.randomBytes(12).toString('hex');

  if ((await redis.command('SET', key, token, 'NX', 'PX', ttl)) !== 'OK') {
    return { ran: false };
  }

  const aborter = new AbortController();
  let kept = Date.now();
  const timer = setInterval(async () => {
    const at = Date.now();
    if (at - kept > ttl * 0.7) return aborter.abort();
    try {
      if ((await redis.command('EVAL', KEEP, 1, key, token, ttl)) === 1) kept = at;
      else aborter.abort();
    } catch (err) {
      console.error('keep-alive of %s: %s', key, err.message);
    }
  }, ttl / 5);

  try {
    return { ran: true, value: await work(aborter.signal) };
  } finally {
    clearInterval(timer);
    await redis.command('EVAL', UNLOCK, 1, key, token).catch(() => {});
  }
}

module.exports = { MiniRedis, withLock };
