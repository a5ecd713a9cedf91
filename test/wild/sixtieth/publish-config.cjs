#!/usr/bin/env node
'use strict';
// Publishes a config file to the artifact store. No dependencies, so that it runs in the bare CI image.
const crypto = require('node:crypto');
const fs = require('node:fs/promises');
const net = require('node:net');

class Resp {
  constructor(host, port, timeoutMs = 3000) {
    this.timeoutMs = timeoutMs;
    this.waiting = [];
    this.buf = Buffer.alloc(0);
    this.socket = net.connect({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk) => this.read(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('connection closed')));
  }

  fail(err) {
    this.dead ??= err;
    this.socket.destroy();
    for (const w of this.waiting.splice(0)) w.reject(err);
  }

  send(...args) {
    if (this.dead) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.fail(new Error(`${args[0]} timed out`)), this.timeoutMs);
      this.waiting.push({
        resolve: (v) => (clearTimeout(timer), resolve(v)),
        reject: (e) => (clearTimeout(timer), reject(e)),
      });
      const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
      this.socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  // Only simple strings, errors, integers and bulk strings are ever sent back to us.
  read(chunk) {
    this.buf = Buffer.concat([this.buf, chunk]);
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.buf[0]);
      let value = this.buf.toString('utf8', 1, eol);
      let end = eol + 2;
      if (type === ':') value = Number(value);
      if (type === '$') {
        const len = Number(value);
        if (len >= 0 && this.buf.length < end + len + 2) return;
        value = len < 0 ? null : this.buf.toString('utf8', end, end + len);
        if (len >= 0) end += len + 2;
      }
      this.buf = this.buf.subarray(end);
      const w = this.waiting.shift();
      if (!w) return this.fail(new Error('unexpected reply'));
      if (type === '-') w.reject(new Error(value));
      else w.resolve(value);
    }
  }
}

const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const TTL_MS = 60_000;

async function exclusively(redis, key, work) {
  const token = crypto.randomUUID();
  const start = performance.now();
  if ((await redis.send('SET', key, token, 'NX', 'PX', TTL_MS)) !== 'OK') throw new Error(`${key} is taken, try later`);
  try {
    const left = Math.floor(TTL_MS - 10_000 - (performance.now() - start));
    return await work(AbortSignal.timeout(left));
  } finally {
    await redis.send('EVAL', RELEASE, 1, key, token).catch((err) => console.warn('release failed:', err.message));
  }
}

async function main([url, file]) {
  const redis = new Resp(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379));
  try {
    await exclusively(redis, `lock:publish:${url}`, async (signal) => {
      const current = await fetch(url, { signal });
      if (!current.ok) throw new Error(`GET ${current.status}`);
      const merged = { ...(await current.json()), ...JSON.parse(await fs.readFile(file, 'utf8')) };
      const etag = current.headers.get('etag');
      if (!etag) throw new Error('the store sent no etag');
      // The store refuses the write if somebody else has written since our GET.
      const headers = { 'if-match': etag, 'content-type': 'application/json' };
      const put = await fetch(url, { method: 'PUT', headers, body: JSON.stringify(merged), signal });
      if (!put.ok) throw new Error(`PUT ${put.status}`);
    });
  } finally {
    redis.socket.destroy();
  }
}

main(process.argv.slice(2)).catch((err) => {
  console.error(err.message);
  process.exitCode = 1;
});
