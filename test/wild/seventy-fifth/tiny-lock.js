'use strict';

/**
 * tiny-lock: locks in Redis without any dependency. Speaks RESP over a plain socket.
 *
 *   const { connect } = require('tiny-lock');
 *   const locks = await connect({ host: 'redis', timeout: 1000 });
 *   const lock = await locks.acquire('import', 10);       // seconds
 *   if (lock) {
 *     try { ...; await lock.extend(10); ... } finally { await lock.release(); }
 *   }
 *
 * acquire() gives null when the lock is taken. The lock lasts for the given number of
 * seconds, call extend() (false: lost) if you need more. One connection is shared by all
 * locks, commands are pipelined.
 */

const net = require('net');
const crypto = require('crypto');

const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
const EXTEND = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('expire',KEYS[1],ARGV[2]) end return 0";

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const a of args) {
    const s = String(a);
    out += `$${Buffer.byteLength(s)}\r\n${s}\r\n`;
  }
  return out;
}

// One reply from the start of buf, or null if it is not complete. (No arrays, we don't need any.)
function decode(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const line = buf.toString('utf8', 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case '+':
      return { value: line, next };
    case '-':
      return { error: new Error(line), next };
    case ':':
      return { value: Number(line), next };
    case '$': {
      const size = Number(line);
      if (size < 0) return { value: null, next };
      if (buf.length < next + size + 2) return null;
      return { value: buf.toString('utf8', next, next + size), next: next + size + 2 };
    }
    default:
      return { error: new Error('unexpected reply'), next };
  }
}

class TinyLock {
  constructor(socket, timeout) {
    this.socket = socket;
    this.timeout = timeout;
    this.pending = [];
    this.buf = Buffer.alloc(0);
    socket.on('data', (chunk) => this.onData(chunk));
    socket.on('error', () => {});
    socket.on('close', () => {
      for (const job of this.pending.splice(0)) {
        clearTimeout(job.timer);
        job.reject(new Error('connection closed'));
      }
    });
  }

  onData(chunk) {
    this.buf = Buffer.concat([this.buf, chunk]);
    let reply;
    while (this.buf.length > 0 && (reply = decode(this.buf))) {
      this.buf = this.buf.subarray(reply.next);
      const job = this.pending.shift();
      if (!job) continue;
      clearTimeout(job.timer);
      if (reply.error) job.reject(reply.error);
      else job.resolve(reply.value);
    }
  }

  command(...args) {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('not connected'));
      const job = { resolve, reject };
      job.timer = setTimeout(() => {
        this.pending.splice(this.pending.indexOf(job), 1);
        reject(new Error(`${args[0]} timed out after ${this.timeout} ms`));
      }, this.timeout);
      this.pending.push(job);
      this.socket.write(encode(args));
    });
  }

  async acquire(name, seconds = 10) {
    const key = `tiny-lock:${name}`;
    const token = crypto.randomBytes(12).toString('hex');
    const reply = await this.command('SET', key, token, 'NX', 'EX', seconds);
    if (reply !== 'OK') return null;
    return {
      name,
      extend: async (more) => (await this.command('EVAL', EXTEND, 1, key, token, more)) === 1,
      release: async () => (await this.command('EVAL', RELEASE, 1, key, token)) === 1,
    };
  }

  close() {
    this.socket.end();
  }
}

async function connect({ host = '127.0.0.1', port = 6379, password, timeout = 1000 } = {}) {
  const socket = net.connect({ host, port, noDelay: true, keepAlive: true });
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  const locks = new TinyLock(socket, timeout);
  if (password) await locks.command('AUTH', password);
  return locks;
}

module.exports = { connect };
