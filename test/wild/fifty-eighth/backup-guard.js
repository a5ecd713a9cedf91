'use strict';
// Dump the database, but never from two machines at once. No dependencies on purpose.
const net = require('node:net');
const { randomBytes } = require('node:crypto');
const { execFile } = require('node:child_process');
const { rename, rm } = require('node:fs/promises');
const { promisify } = require('node:util');

class MiniRedis {
  #buf = Buffer.alloc(0);
  #waiting = [];
  #dead = null;

  constructor(port, host, timeoutMs = 3000) {
    this.timeoutMs = timeoutMs;
    this.socket = net.createConnection(port, host);
    this.socket.on('data', (chunk) => this.#onData(chunk));
    this.socket.on('error', (err) => this.#fail(err));
    this.socket.on('close', () => this.#fail(new Error('redis connection closed')));
  }

  command(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    const words = args.map(String);
    const frame = `*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join('');
    return new Promise((resolve, reject) => {
      // a late answer would be taken for the answer to the next command, so a timeout ends the connection
      const timer = setTimeout(() => this.#fail(new Error(`redis: ${words[0]} timed out`)), this.timeoutMs);
      this.#waiting.push({ resolve, reject, timer });
      this.socket.write(frame);
    });
  }

  close() {
    this.socket.end();
  }

  #fail(err) {
    this.#dead ??= err;
    this.socket.destroy();
    for (const w of this.#waiting.splice(0)) {
      clearTimeout(w.timer);
      w.reject(this.#dead);
    }
  }

  #onData(chunk) {
    this.#buf = Buffer.concat([this.#buf, chunk]);
    for (;;) {
      const eol = this.#buf.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.#buf[0]);
      const line = this.#buf.toString('utf8', 1, eol);
      let end = eol + 2;
      let value;
      if (type === '+') value = line;
      else if (type === ':') value = Number(line);
      else if (type === '-') value = new Error(line);
      else if (type === '$' && line === '-1') value = null;
      else if (type === '$') {
        const len = Number(line);
        if (this.#buf.length < end + len + 2) return;
        value = this.#buf.toString('utf8', end, end + len);
        end += len + 2;
      } else return this.#fail(new Error(`redis: unexpected reply ${type}${line}`));
      this.#buf = this.#buf.subarray(end);
      const w = this.#waiting.shift();
      if (!w) return this.#fail(new Error('redis: reply without a command'));
      clearTimeout(w.timer);
      if (value instanceof Error) w.reject(value);
      else w.resolve(value);
    }
  }
}

const UNLOCK = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/** Calls work(signal); the signal fires after 80% of the ttl and work must be over soon after. */
async function withLock(redis, name, ttlMs, work) {
  const key = `lock:${name}`;
  const token = randomBytes(16).toString('hex');
  const asked = performance.now();
  if ((await redis.command('SET', key, token, 'NX', 'PX', ttlMs)) !== 'OK') return false;
  try {
    const left = Math.floor(ttlMs * 0.8 - (performance.now() - asked));
    await work(AbortSignal.timeout(Math.max(0, left)));
    return true;
  } finally {
    await redis.command('EVAL', UNLOCK, 1, key, token).catch((err) => console.warn('unlock:', err.message));
  }
}

async function main() {
  const redis = new MiniRedis(Number(process.env.REDIS_PORT || 6379), process.env.REDIS_HOST || '127.0.0.1');
  const ran = await withLock(redis, 'db-backup', 30 * 60_000, async (signal) => {
    const part = `/backups/app.${process.pid}.${Date.now()}.part`;
    try {
      await promisify(execFile)('pg_dump', ['-Fc', '-f', part, 'app'], { signal, killSignal: 'SIGKILL' });
      signal.throwIfAborted();
      await rename(part, '/backups/app.dump');
    } finally {
      await rm(part, { force: true });
    }
  });
  console.log(ran ? 'backup written' : 'backup is running elsewhere');
  redis.close();
}

main().catch((err) => (console.error(err), process.exit(1)));
