import net from 'node:net';
import { randomBytes } from 'node:crypto';

const REPLY_TIMEOUT_MS = 2_000;
const LOCK_MS = 60_000;
const SYNC_LIMIT_MS = 25_000;

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

// We only need three commands, no reason to pull in a client library.
export class MiniRedis {
  #socket;
  #buffer = Buffer.alloc(0);
  #pending = [];
  #dead = null;

  constructor(host = process.env.REDIS_HOST ?? '127.0.0.1', port = Number(process.env.REDIS_PORT ?? 6379)) {
    this.#socket = net.connect({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (chunk) => this.#onData(chunk));
    this.#socket.on('error', (err) => this.#fail(err));
    this.#socket.on('close', () => this.#fail(new Error('redis: connection closed')));
  }

  send(...args) {
    return new Promise((resolve, reject) => {
      if (this.#dead) return reject(this.#dead);
      const entry = { resolve, reject };
      entry.timer = setTimeout(() => {
        this.#pending.splice(this.#pending.indexOf(entry), 1);
        reject(new Error(`redis: no reply to ${args[0]} within ${REPLY_TIMEOUT_MS} ms`));
      }, REPLY_TIMEOUT_MS);
      this.#pending.push(entry);

      const parts = args.map((a) => Buffer.from(String(a)));
      const out = [Buffer.from(`*${parts.length}\r\n`)];
      for (const p of parts) out.push(Buffer.from(`$${p.length}\r\n`), p, Buffer.from('\r\n'));
      this.#socket.write(Buffer.concat(out));
    });
  }

  close() {
    this.#socket.end();
  }

  #onData(chunk) {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    for (let reply = this.#next(); reply; reply = this.#next()) {
      const entry = this.#pending.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (reply.value instanceof Error) entry.reject(reply.value);
      else entry.resolve(reply.value);
    }
  }

  #next() {
    const eol = this.#buffer.indexOf('\r\n');
    if (eol === -1) return null;
    const type = String.fromCharCode(this.#buffer[0]);
    const line = this.#buffer.toString('utf8', 1, eol);
    let end = eol + 2;
    let value;
    if (type === '+') value = line;
    else if (type === '-') value = new Error(`redis: ${line}`);
    else if (type === ':') value = Number(line);
    else if (type === '$' && line === '-1') value = null;
    else if (type === '$') {
      end += Number(line) + 2;
      if (this.#buffer.length < end) return null;
      value = this.#buffer.toString('utf8', eol + 2, end - 2);
    } else {
      this.#socket.destroy(new Error(`redis: unexpected reply type ${type}`));
      return null;
    }
    this.#buffer = this.#buffer.subarray(end);
    return { value };
  }

  #fail(err) {
    this.#dead ??= err;
    for (const entry of this.#pending.splice(0)) {
      clearTimeout(entry.timer);
      entry.reject(err);
    }
  }
}

export async function syncSite(redis, db, siteId) {
  const key = `lock:meter-sync:${siteId}`;
  const token = randomBytes(16).toString('hex');
  const unlock = () => redis.send('EVAL', UNLOCK, 1, key, token).catch((err) => console.warn(siteId, err.message));

  let reply;
  try {
    reply = await redis.send('SET', key, token, 'NX', 'PX', LOCK_MS);
  } catch (err) {
    await unlock();
    throw err;
  }
  if (reply !== 'OK') return { siteId, skipped: true };

  try {
    const signal = AbortSignal.timeout(SYNC_LIMIT_MS);
    const since = await db.lastReadingAt(siteId, { signal });
    const res = await fetch(`${process.env.GATEWAY_URL}/sites/${siteId}/readings?since=${since}`, { signal });
    if (!res.ok) throw new Error(`gateway answered ${res.status} for ${siteId}`);
    const readings = await res.json();
    await db.appendReadings(siteId, readings, { signal }); // one transaction
    return { siteId, count: readings.length };
  } finally {
    await unlock();
  }
}

export async function syncAll(redis, db, siteIds) {
  const results = await Promise.allSettled(siteIds.map((id) => syncSite(redis, db, id)));
  for (const r of results) if (r.status === 'rejected') console.error('meter-sync:', r.reason);
  return results;
}
