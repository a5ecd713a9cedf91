'use strict';
// No dependencies: a few lines of RESP over a socket are enough for a lock.
const net = require('node:net');
const { randomUUID } = require('node:crypto');

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const arg of args) {
    const s = String(arg);
    out += `$${Buffer.byteLength(s)}\r\n${s}\r\n`;
  }
  return out;
}

// Returns [value, next offset], or null while the reply is not complete.
function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol === -1) return null;
  const head = buf.toString('utf8', 1, eol);
  const rest = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case '+':
      return [head, rest];
    case '-':
      return [new Error(head), rest];
    case ':':
      return [Number(head), rest];
    case '$': {
      const len = Number(head);
      if (len === -1) return [null, rest];
      if (buf.length < rest + len + 2) return null;
      return [buf.toString('utf8', rest, rest + len), rest + len + 2];
    }
    default:
      throw new Error(`unexpected reply: ${head}`);
  }
}

class Connection {
  constructor(host, port) {
    this.pending = [];
    this.buffer = Buffer.alloc(0);
    this.closed = null;
    this.socket = net.createConnection({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('connection closed')));
  }

  onData(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    try {
      for (let reply = this.buffer.length ? parse(this.buffer) : null; reply; reply = this.buffer.length ? parse(this.buffer) : null) {
        this.buffer = this.buffer.subarray(reply[1]);
        const { resolve, reject } = this.pending.shift();
        if (reply[0] instanceof Error) reject(reply[0]);
        else resolve(reply[0]);
      }
    } catch (err) {
      this.socket.destroy(err);
    }
  }

  fail(err) {
    this.closed = this.closed || err;
    for (const { reject } of this.pending.splice(0)) reject(err);
  }

  send(...args) {
    if (this.closed) return Promise.reject(this.closed);
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve, reject });
      this.socket.write(encode(args));
    });
  }

  close() {
    this.socket.end();
  }
}

function connect(host = process.env.REDIS_HOST || '127.0.0.1', port = Number(process.env.REDIS_PORT || 6379)) {
  return new Connection(host, port);
}

async function acquire(conn, key, ttlMs) {
  const token = randomUUID();
  const sentAt = performance.now();
  const reply = await conn.send('SET', key, token, 'NX', 'PX', ttlMs);
  if (reply !== 'OK') return null;
  return { key, token, isHeld: () => performance.now() - sentAt < ttlMs };
}

async function release(conn, lock) {
  return (await conn.send('EVAL', UNLOCK, 1, lock.key, lock.token)) === 1;
}

module.exports = { connect, acquire, release };
