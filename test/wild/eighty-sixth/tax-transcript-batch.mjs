#!/usr/bin/env node
// Pulls the transcripts of all clients of an office: tax-transcript-batch.mjs <office>
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';

const OFFICE = process.argv[2];
const LEASE = Number(process.env.LEASE_SECONDS ?? 30);
const API = process.env.TRANSCRIPT_API;
const OUT = process.env.OUT_DIR ?? './transcripts';

class Resp {
  #sock; #buf = Buffer.alloc(0); #queue = [];

  constructor(port, host) {
    this.#sock = net.connect(port, host);
    this.#sock.on('data', (d) => { this.#buf = Buffer.concat([this.#buf, d]); this.#drain(); });
    const fail = (err) => this.#queue.splice(0).forEach((q) => q.reject(err ?? new Error('redis closed')));
    this.#sock.on('error', fail);
    this.#sock.on('close', () => fail());
    this.#sock.setTimeout((LEASE * 1000) / 2, () => this.#sock.destroy(new Error('redis silent')));
  }

  cmd(...args) {
    return new Promise((resolve, reject) => {
      if (this.#sock.destroyed) return reject(new Error('redis closed'));
      this.#queue.push({ resolve, reject });
      const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
      this.#sock.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  end() { this.#sock.end(); }

  #drain() {
    for (let eol; (eol = this.#buf.indexOf('\r\n')) !== -1;) {
      const line = this.#buf.toString('utf8', 1, eol);
      const kind = String.fromCharCode(this.#buf[0]);
      let next = eol + 2;
      let value = kind === ':' ? Number(line) : line;
      if (kind === '$') {
        const len = Number(line);
        if (len >= 0 && this.#buf.length < next + len + 2) return;
        value = len < 0 ? null : this.#buf.toString('utf8', next, next + len);
        if (len >= 0) next += len + 2;
      }
      this.#buf = this.#buf.subarray(next);
      const q = this.#queue.shift();
      if (kind === '-') q.reject(new Error(line));
      else q.resolve(value);
    }
  }
}

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

async function api(path, signal) {
  const res = await fetch(`${API}${path}`, { signal: AbortSignal.any([signal, AbortSignal.timeout(8_000)]) });
  if (!res.ok) throw new Error(`${path}: ${res.status}`);
  return res;
}

const redis = new Resp(Number(process.env.REDIS_PORT ?? 6379), process.env.REDIS_HOST ?? '127.0.0.1');
const key = `tax:transcripts:${OFFICE}`;
const token = randomUUID();

if ((await redis.cmd('SET', key, token, 'NX', 'EX', LEASE)) !== 'OK') {
  console.log(`${OFFICE}: another batch is running`);
  redis.end();
  process.exit(0);
}

const lost = new AbortController();
const beat = setInterval(async () => {
  try {
    const ok = await redis.cmd('EVAL', RENEW, 1, key, token, LEASE);
    if (ok !== 1) lost.abort(new Error('lease lost'));
  } catch (err) {
    lost.abort(err);
  }
}, (LEASE * 1000) / 3);

try {
  await mkdir(OUT, { recursive: true });
  const clients = await (await api(`/offices/${OFFICE}/clients`, lost.signal)).json();
  for (const { tin } of clients) {
    lost.signal.throwIfAborted();
    const body = await (await api(`/transcripts/${tin}`, lost.signal)).text();
    await writeFile(`${OUT}/${tin}.${token}.tmp`, body);
    await rename(`${OUT}/${tin}.${token}.tmp`, `${OUT}/${tin}.xml`);
  }
  console.log(`${OFFICE}: ${clients.length} transcripts`);
} catch (err) {
  console.error(`${OFFICE}:`, err);
  process.exitCode = 1;
} finally {
  clearInterval(beat);
  await redis.cmd('EVAL', UNLOCK, 1, key, token).catch(() => {});
  redis.end();
}
