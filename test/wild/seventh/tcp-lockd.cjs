'use strict';
// No dependencies on the gateway image, so we speak RESP ourselves.
const net = require('net');
const crypto = require('crypto');

function encode(args) {
  return `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
}

class Conn {
  constructor(port, host) {
    this.buf = Buffer.alloc(0);
    this.pending = [];
    this.sock = net.connect(port, host);
    this.sock.setNoDelay(true);
    this.sock.on('data', (d) => {
      this.buf = Buffer.concat([this.buf, d]);
      this.drain();
    });
    const fail = (e) => {
      this.dead = e || new Error('connection closed');
      for (const p of this.pending.splice(0)) p.reject(this.dead);
    };
    this.sock.on('error', fail);
    this.sock.on('close', () => fail());
  }

  send(...args) {
    if (this.dead) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve, reject });
      this.sock.write(encode(args));
    });
  }

  drain() {
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const head = this.buf.toString('utf8', 1, eol);
      const type = String.fromCharCode(this.buf[0]);
      let used = eol + 2;
      let value;
      if (type === '$') {
        const n = Number(head);
        if (n >= 0) {
          if (this.buf.length < used + n + 2) return;
          value = this.buf.toString('utf8', used, used + n);
          used += n + 2;
        } else value = null;
      } else if (type === ':') value = Number(head);
      else if (type === '+') value = head;
      else value = new Error(head);
      this.buf = this.buf.subarray(used);
      const p = this.pending.shift();
      if (!p) continue;
      if (value instanceof Error) p.reject(value);
      else p.resolve(value);
    }
  }

  end() {
    this.sock.end();
  }
}

const UNLOCK = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";
const STORE = "if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end redis.call('SET',KEYS[2],ARGV[2]) return 1";

/** Calls fn(save) while holding the device's config lock; resolves false when another gateway has it. */
async function withDeviceConfig(deviceId, fn, { port = 6379, host = '127.0.0.1', ttl = 8000 } = {}) {
  const conn = new Conn(port, host);
  const lock = `gw:${deviceId}:lock`;
  const data = `gw:${deviceId}:config`;
  const token = crypto.randomBytes(16).toString('hex');
  try {
    const reply = await conn.send('SET', lock, token, 'NX', 'PX', ttl);
    if (reply !== 'OK') return false;
    try {
      const current = JSON.parse((await conn.send('GET', data)) || '{}');
      const next = await fn(current);
      const stored = await conn.send('EVAL', STORE, 2, lock, data, token, JSON.stringify(next));
      if (stored !== 1) throw new Error(`${deviceId}: lock expired, config not stored`);
      return true;
    } finally {
      await conn.send('EVAL', UNLOCK, 1, lock, token).catch(() => {});
    }
  } finally {
    conn.end();
  }
}

module.exports = { withDeviceConfig };
