import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { rename, writeFile, rm } from 'node:fs/promises';
import path from 'node:path';

// The report box has no npm registry access, hence this little client.

const CRLF = '\r\n';

class RedisReplyError extends Error {}

class RespClient {
  #socket;
  #buffer = Buffer.alloc(0);
  #waiting = [];
  #dead = null;

  constructor({ host, port, timeoutMs = 2000 }) {
    this.timeoutMs = timeoutMs;
    this.#socket = net.createConnection({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (chunk) => this.#onData(chunk));
    this.#socket.on('error', (err) => this.#fail(err));
    this.#socket.on('close', () => this.#fail(new Error('connection closed')));
  }

  command(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    let out = `*${args.length}${CRLF}`;
    for (const arg of args) {
      const s = String(arg);
      out += `$${Buffer.byteLength(s)}${CRLF}${s}${CRLF}`;
    }
    return new Promise((resolve, reject) => {
      // Answers come in order. After a timeout the order cannot be trusted, so close.
      const timer = setTimeout(() => this.#fail(new Error(`${args[0]}: timeout`)), this.timeoutMs);
      this.#waiting.push({ resolve, reject, timer });
      this.#socket.write(out);
    });
  }

  close() {
    this.#fail(new Error('client closed'));
  }

  #fail(err) {
    if (this.#dead) return;
    this.#dead = err;
    this.#socket.destroy();
    for (const w of this.#waiting.splice(0)) {
      clearTimeout(w.timer);
      w.reject(err);
    }
  }

  #onData(chunk) {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    for (;;) {
      const parsed = this.#parse();
      if (!parsed) return;
      this.#buffer = this.#buffer.subarray(parsed.end);
      const w = this.#waiting.shift();
      if (!w) return this.#fail(new Error('answer without a question'));
      clearTimeout(w.timer);
      if (parsed.value instanceof Error) w.reject(parsed.value);
      else w.resolve(parsed.value);
    }
  }

  // Only what SET, GET and our EVALs answer: no arrays.
  #parse() {
    const eol = this.#buffer.indexOf(CRLF);
    if (eol < 0) return null;
    const line = this.#buffer.toString('utf8', 1, eol);
    const next = eol + 2;
    switch (String.fromCharCode(this.#buffer[0])) {
      case '+':
        return { value: line, end: next };
      case '-':
        return { value: new RedisReplyError(line), end: next };
      case ':':
        return { value: Number(line), end: next };
      case '$': {
        const size = Number(line);
        if (size === -1) return { value: null, end: next };
        if (this.#buffer.length < next + size + 2) return null;
        return { value: this.#buffer.toString('utf8', next, next + size), end: next + size + 2 };
      }
      default:
        this.#fail(new Error(`unexpected answer: ${line}`));
        return null;
    }
  }
}

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const LOCK_MS = 120_000;
const BUILD_MS = 90_000;

/**
 * @param {string} reportId
 * @param {(signal: AbortSignal) => Promise<string>} build
 * @returns {Promise<string|null>} path of the report, null if another box builds it
 */
export async function buildReport(reportId, build, { outDir = process.env.REPORT_DIR ?? '/var/reports', log = console } = {}) {
  const client = new RespClient({
    host: process.env.REDIS_HOST ?? '127.0.0.1',
    port: Number(process.env.REDIS_PORT ?? 6379),
  });
  const key = `report:lock:${reportId}`;
  const token = randomUUID();
  try {
    const startedAt = performance.now();
    if ((await client.command('SET', key, token, 'NX', 'PX', LOCK_MS)) !== 'OK') {
      log.info(`report ${reportId}: being built elsewhere`);
      return null;
    }

    const target = path.join(outDir, `${reportId}.csv`);
    const draft = `${target}.${token}.draft`; // never shared, not even by a late builder
    try {
      const csv = await build(AbortSignal.timeout(BUILD_MS));
      await writeFile(draft, csv, 'utf8');
      if (performance.now() - startedAt > BUILD_MS) {
        throw new Error(`report ${reportId}: took too long, not published`);
      }
      await rename(draft, target);
      return target;
    } finally {
      await rm(draft, { force: true });
      await client.command('EVAL', UNLOCK, 1, key, token).catch((err) => {
        log.warn(`report ${reportId}: unlock failed (${err.message}), lock runs out by itself`);
      });
    }
  } finally {
    client.close();
  }
}
