'use strict';
// A lock without any dependency: RESP over a plain socket.
//
//   const { withLock } = require('./resp-lock.cjs');
//   await withLock({ host: '10.0.0.5', name: 'rotate-keys', ttl: 20000 }, async (lease) => {
//     await fetch(url, { method: 'POST', signal: lease.signal });
//   });

const net = require('node:net');
const crypto = require('node:crypto');

const UNLOCK =
  "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

class Connection {
  constructor({ host = '127.0.0.1', port = 6379, commandTimeout = 2000 }) {
    this.timeout = commandTimeout;
    this.buffer = Buffer.alloc(0);
    this.pending = [];
    this.dead = null;
    this.socket = net.connect({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('connection closed')));
  }

  fail(err) {
    if (this.dead) return;
    this.dead = err;
    this.socket.destroy();
    for (const p of this.pending.splice(0)) p.reject(err);
  }

  send(...args) {
    if (this.dead) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      // Replies come in order, so after a timeout the connection is of no use.
      const timer = setTimeout(() => this.fail(new Error(`${args[0]}: no reply`)), this.timeout);
      const settle = (how) => (value) => {
        clearTimeout(timer);
        how(value);
      };
      this.pending.push({ resolve: settle(resolve), reject: settle(reject) });
      const parts = args.map((a) => {
        const text = String(a);
        return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
      });
      this.socket.write(`*${parts.length}\r\n${parts.join('')}`);
    });
  }

  onData(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (;;) {
      const end = this.buffer.indexOf('\r\n');
      if (end < 0) return;
      const type = String.fromCharCode(this.buffer[0]);
      const line = this.buffer.toString('utf8', 1, end);
      let used = end + 2;
      let value = line;
      if (type === ':') value = Number(line);
      else if (type === '$') {
        const size = Number(line);
        if (size < 0) value = null;
        else {
          if (this.buffer.length < used + size + 2) return;
          value = this.buffer.toString('utf8', used, used + size);
          used += size + 2;
        }
      } else if (type !== '+' && type !== '-') {
        return this.fail(new Error(`unexpected reply type ${type}`));
      }
      this.buffer = this.buffer.subarray(used);
      const waiter = this.pending.shift();
      if (!waiter) return this.fail(new Error('reply without a request'));
      if (type === '-') waiter.reject(new Error(value));
      else waiter.resolve(value);
    }
  }

  close() {
    this.fail(new Error('closed'));
  }
}

/**
 * Runs `fn` under the lock. The lease is not renewed: `lease.signal` fires a
 * tenth of the ttl before the key expires, and the work has to end then.
 * Resolves to undefined without running `fn` when the lock is taken.
 */
async function withLock({ name, ttl, password, ...target }, fn) {
  const conn = new Connection(target);
  const key = `lock:${name}`;
  const token = crypto.randomBytes(16).toString('hex');
  try {
    if (password) await conn.send('AUTH', password);

    const sent = performance.now();
    const reply = await conn.send('SET', key, token, 'NX', 'PX', ttl);
    if (reply !== 'OK') return undefined;

    const until = sent + ttl * 0.9;
    const abort = new AbortController();
    const expire = () => abort.abort(new Error(`lease on ${name} ran out`));
    const timer = setTimeout(expire, Math.max(0, until - performance.now()));
    try {
      if (performance.now() >= until) expire();
      abort.signal.throwIfAborted();
      return await fn({
        signal: abort.signal,
        timeLeft: () => Math.max(0, until - performance.now()),
      });
    } finally {
      clearTimeout(timer);
      await conn.send('EVAL', UNLOCK, 1, key, token).catch(() => {}); // then the ttl frees it
    }
  } finally {
    conn.close();
  }
}

module.exports = { withLock, Connection };
