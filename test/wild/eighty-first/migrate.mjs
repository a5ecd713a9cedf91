#!/usr/bin/env node
import { readdir, readFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import pg from 'pg';

const KEY = 'ops:migrate';
const TTL = 60_000;
const RENEW = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) end return 0";
const DROP = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

class Resp {
  #buf = Buffer.alloc(0);
  #waiting = [];
  #dead = null;

  constructor(sock) {
    this.sock = sock;
    sock.on('data', (chunk) => {
      this.#buf = Buffer.concat([this.#buf, chunk]);
      for (let r; (r = this.#next()); ) {
        this.#buf = this.#buf.subarray(r.used);
        const w = this.#waiting.shift();
        if (r.error) w?.reject(r.error);
        else w?.resolve(r.value);
      }
    });
    sock.on('error', () => {});
    sock.setTimeout(30_000, () => sock.destroy());
    sock.on('close', () => {
      this.#dead = new Error('redis connection closed');
      for (const w of this.#waiting.splice(0)) w.reject(this.#dead);
    });
  }

  call(...args) {
    return new Promise((resolve, reject) => {
      if (this.#dead) return reject(this.#dead);
      this.#waiting.push({ resolve, reject });
      const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
      this.sock.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  #next() {
    const eol = this.#buf.indexOf('\r\n');
    if (eol < 0) return null;
    const line = this.#buf.toString('utf8', 1, eol);
    const used = eol + 2;
    switch (String.fromCharCode(this.#buf[0])) {
      case '+': return { value: line, used };
      case ':': return { value: Number(line), used };
      case '-': return { error: new Error(line), used };
      case '$': {
        if (line === '-1') return { value: null, used };
        const end = used + Number(line);
        return this.#buf.length < end + 2 ? null : { value: this.#buf.toString('utf8', used, end), used: end + 2 };
      }
      default: return { error: new Error(`unexpected reply ${line}`), used };
    }
  }
}

const sock = net.connect(Number(process.env.REDIS_PORT ?? 6379), process.env.REDIS_HOST ?? '127.0.0.1');
await once(sock, 'connect');
const redis = new Resp(sock);
const token = randomBytes(16).toString('hex');

let validUntil = performance.now() + TTL;
if ((await redis.call('SET', KEY, token, 'NX', 'PX', TTL)) !== 'OK') {
  console.error('another migration is running');
  process.exit(75);
}
const beat = setInterval(async () => {
  const sentAt = performance.now();
  try {
    validUntil = (await redis.call('EVAL', RENEW, 1, KEY, token, TTL)) === 1 ? sentAt + TTL : 0;
  } catch (err) {
    console.warn('renewal:', err.message);
  }
}, TTL / 5);

const db = new pg.Client();
try {
  await db.connect();
  const dir = process.argv[2] ?? 'migrations';
  const { rows } = await db.query('SELECT name FROM schema_migrations');
  const done = new Set(rows.map((r) => r.name));
  for (const name of (await readdir(dir)).filter((f) => f.endsWith('.sql')).sort()) {
    if (done.has(name)) continue;
    await db.query('BEGIN');
    // name is the primary key
    await db.query('INSERT INTO schema_migrations (name) VALUES ($1)', [name]);
    await db.query(await readFile(path.join(dir, name), 'utf8'));
    if (performance.now() > validUntil - 5_000) throw new Error(`lock lost during ${name}, rolled back`);
    await db.query('COMMIT');
    console.log('applied', name);
  }
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  clearInterval(beat);
  await db.end().catch(() => {});
  await redis.call('EVAL', DROP, 1, KEY, token).catch(() => {});
  sock.end();
}
