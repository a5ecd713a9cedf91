'use strict';

const net = require('net');
const crypto = require('crypto');

/** Minimal RESP2 client: one socket, replies come back in the order of the commands. */
class TinyRedis {
  constructor({ host = '127.0.0.1', port = 6379, timeout = 500 } = {}) {
    this.timeout = timeout;
    this.pending = [];
    this.buffer = '';
    this.socket = net.createConnection({ host, port });
    this.socket.setNoDelay(true);
    this.socket.setEncoding('latin1');
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.failAll(err));
    this.socket.on('close', () => this.failAll(new Error('connection closed')));
  }

  send(...args) {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('not connected'));
      const entry = { resolve, reject, timer: null };
      entry.timer = setTimeout(() => {
        const i = this.pending.indexOf(entry);
        if (i !== -1) this.pending.splice(i, 1);
        reject(new Error(`${args[0]} timed out after ${this.timeout} ms`));
      }, this.timeout);
      this.pending.push(entry);

      const parts = args.map((a) => {
        const s = String(a);
        return `$${Buffer.byteLength(s)}\r\n${s}\r\n`;
      });
      this.socket.write(`*${parts.length}\r\n${parts.join('')}`);
    });
  }

  onData(chunk) {
    this.buffer += chunk;
    for (;;) {
      const reply = this.parse();
      if (!reply) return;
      const entry = this.pending.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (reply.error) entry.reject(reply.error);
      else entry.resolve(reply.value);
    }
  }

  parse() {
    const eol = this.buffer.indexOf('\r\n');
    if (eol < 0) return null;
    const type = this.buffer[0];
    const line = this.buffer.slice(1, eol);
    let end = eol + 2;
    let reply;
    if (type === '+') reply = { value: line };
    else if (type === ':') reply = { value: Number(line) };
    else if (type === '-') reply = { error: new Error(line) };
    else if (type === '$' && line === '-1') reply = { value: null };
    else if (type === '$') {
      const len = Number(line);
      if (this.buffer.length < end + len + 2) return null;
      reply = { value: this.buffer.slice(end, end + len) };
      end += len + 2;
    } else {
      this.socket.destroy(new Error(`protocol error: ${type}`));
      return null;
    }
    this.buffer = this.buffer.slice(end);
    return reply;
  }

  failAll(err) {
    for (const entry of this.pending.splice(0)) {
      clearTimeout(entry.timer);
      entry.reject(err);
    }
  }

  close() {
    this.socket.end();
  }
}

const UNLOCK =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

/**
 * Runs fn(signal) if the lock is free, otherwise returns { ran: false }.
 * The signal fires at three quarters of the ttl; fn has to end by then.
 */
async function tryLock(redis, key, ttl, fn) {
  const token = crypto.randomUUID();
  const sentAt = Date.now();
  let acquired = false;
  try {
    acquired = (await redis.send('SET', key, token, 'NX', 'PX', ttl)) === 'OK';
    if (!acquired) return { ran: false };
    const left = Math.max(0, Math.floor(sentAt + ttl * 0.75 - Date.now()));
    return { ran: true, result: await fn(AbortSignal.timeout(left)) };
  } catch (err) {
    // A SET without an answer may have been executed.
    acquired = true;
    throw err;
  } finally {
    if (acquired) {
      await redis.send('EVAL', UNLOCK, 1, key, token).catch((err) => {
        console.warn(`unlock ${key}: ${err.message}`);
      });
    }
  }
}

module.exports = { TinyRedis, tryLock };
