'use strict';

// tiny-redis-lock: a mutex on Redis without any dependency.

const net = require('net');
const { randomBytes } = require('crypto');

function encode(args) {
  return `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
}

class Connection {
  constructor(port, host) {
    this.queue = [];
    this.rest = '';
    this.socket = net.createConnection({ port, host });
    this.socket.setEncoding('utf8');
    this.socket.on('data', (data) => this.onData(data));
    this.socket.on('error', (err) => this.close(err));
    this.socket.on('close', () => this.close(new Error('Connection closed')));
  }

  command(...args) {
    if (this.closed) return Promise.reject(this.closed);
    return new Promise((resolve, reject) => {
      this.queue.push({ resolve, reject });
      this.socket.write(encode(args));
    });
  }

  // SETNX, EXPIRE and EVAL (as used below) all reply with one line
  onData(data) {
    this.rest += data;
    let i;
    while ((i = this.rest.indexOf('\r\n')) !== -1) {
      const line = this.rest.slice(0, i);
      this.rest = this.rest.slice(i + 2);
      const { resolve, reject } = this.queue.shift();
      if (line[0] === '-') reject(new Error(line.slice(1)));
      else resolve(line[0] === ':' ? Number(line.slice(1)) : line.slice(1));
    }
  }

  close(err) {
    this.closed = this.closed || err;
    this.socket.destroy();
    this.queue.splice(0).forEach(({ reject }) => reject(err));
  }
}

const UNLOCK =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

class Lock {
  constructor({ port = 6379, host = '127.0.0.1' } = {}) {
    this.connection = new Connection(port, host);
  }

  /** Resolves with a token, or null if the lock is taken. Finish before `seconds` are over. */
  async acquire(name, seconds) {
    const token = randomBytes(20).toString('hex');
    const created = await this.connection.command('SETNX', `lock:${name}`, token);
    if (created !== 1) return null;
    // don't leave the lock behind if this process dies
    await this.connection.command('EXPIRE', `lock:${name}`, seconds);
    return token;
  }

  async release(name, token) {
    return (await this.connection.command('EVAL', UNLOCK, 1, `lock:${name}`, token)) === 1;
  }

  /** Runs fn(signal); the signal fires when four fifths of the time are over. */
  async run(name, seconds, fn) {
    const signal = AbortSignal.timeout(seconds * 800);
    const token = await this.acquire(name, seconds);
    if (token === null) return false;
    try {
      await fn(signal);
      return true;
    } finally {
      await this.release(name, token).catch(() => {});
    }
  }

  end() {
    this.connection.close(new Error('Lock client ended'));
  }
}

module.exports = { Lock };
