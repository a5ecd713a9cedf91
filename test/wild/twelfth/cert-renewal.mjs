// Runs on the load balancers, where we ship no npm packages: a few lines of
// RESP are all that is needed to agree on who renews a certificate.
import net from 'node:net';
import { randomUUID } from 'node:crypto';

const TTL_MS = 30_000;
const COMMAND_TIMEOUT_MS = 3_000;

const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const EXTEND = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

class Resp {
  #socket;
  #buffer = Buffer.alloc(0);
  #waiting = [];

  static async open(address = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379') {
    const url = new URL(address);
    const conn = new Resp();
    conn.#socket = net.connect(Number(url.port || 6379), url.hostname);
    conn.#socket.on('data', (chunk) => conn.#read(chunk));
    conn.#socket.on('error', (err) => conn.#fail(err));
    conn.#socket.on('close', () => conn.#fail(new Error('redis connection closed')));
    if (url.password) {
      const user = url.username ? [decodeURIComponent(url.username)] : [];
      try {
        await conn.send('AUTH', ...user, decodeURIComponent(url.password));
      } catch (err) {
        conn.close();
        throw err;
      }
    }
    return conn;
  }

  send(...args) {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('redis connection closed'));
      const timer = setTimeout(() => this.#socket.destroy(new Error('redis timed out')), COMMAND_TIMEOUT_MS);
      this.#waiting.push({ resolve, reject, timer });
      const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
      this.#socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  close() {
    this.#socket.destroy();
  }

  #fail(err) {
    for (const w of this.#waiting.splice(0)) {
      clearTimeout(w.timer);
      w.reject(err);
    }
  }

  #read(chunk) {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    for (;;) {
      const eol = this.#buffer.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.#buffer[0]);
      const line = this.#buffer.toString('utf8', 1, eol);
      let end = eol + 2;
      let value = line;
      if (type === ':') value = Number(line);
      if (type === '$') {
        const length = Number(line);
        value = null;
        if (length >= 0) {
          if (this.#buffer.length < end + length + 2) return;
          value = this.#buffer.toString('utf8', end, end + length);
          end += length + 2;
        }
      }
      this.#buffer = this.#buffer.subarray(end);
      const w = this.#waiting.shift();
      if (!w) continue;
      clearTimeout(w.timer);
      if (type === '-') w.reject(new Error(line));
      else w.resolve(value);
    }
  }
}

/**
 * @param {string} domain
 * @param {{ daysLeft(domain: string): Promise<number>,
 *           order(domain: string, signal: AbortSignal): Promise<{ pem: string }>,
 *           install(domain: string, cert: { pem: string }): Promise<void> }} acme
 */
export async function renewCertificate(domain, acme) {
  const redis = await Resp.open();
  try {
    const key = `cert:${domain}:renewing`;
    const token = randomUUID();
    const sentAt = performance.now();
    if ((await redis.send('SET', key, token, 'NX', 'PX', TTL_MS)) !== 'OK') return 'elsewhere';

    const lost = new AbortController();
    let expiry;
    const arm = (from) => {
      clearTimeout(expiry);
      const left = from + TTL_MS - 3_000 - performance.now();
      expiry = setTimeout(() => lost.abort(new Error('lock ran out')), Math.max(0, left));
    };
    let open = true;
    arm(sentAt);
    const beat = setInterval(async () => {
      const at = performance.now();
      // no answer: the expiry above has the last word
      const kept = await redis.send('EVAL', EXTEND, 1, key, token, TTL_MS).catch(() => null);
      if (!open || lost.signal.aborted || kept === null) return;
      if (kept === 1) arm(at);
      else lost.abort(new Error('lock was lost'));
    }, TTL_MS / 3);

    try {
      // the previous holder may just have done it
      if ((await acme.daysLeft(domain)) > 30) return 'fresh';
      lost.signal.throwIfAborted();
      const cert = await acme.order(domain, lost.signal);
      lost.signal.throwIfAborted();
      await acme.install(domain, cert);
      return 'renewed';
    } finally {
      open = false;
      clearInterval(beat);
      clearTimeout(expiry);
      await redis.send('EVAL', RELEASE, 1, key, token).catch(() => {});
    }
  } finally {
    redis.close();
  }
}
