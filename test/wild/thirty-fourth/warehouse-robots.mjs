import net from 'node:net';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';

const AISLE_TTL_MS = 20_000;

/** Reads one RESP2 reply at pos; undefined when the buffer does not hold all of it yet. */
function parseReply(buf, pos) {
  const eol = buf.indexOf('\r\n', pos);
  if (eol < 0) return undefined;
  const line = buf.toString('utf8', pos + 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[pos])) {
    case '+': return { value: line, next };
    case '-': return { error: new Error(line), next };
    case ':': return { value: Number(line), next };
    case '$': {
      const length = Number(line);
      if (length < 0) return { value: null, next };
      if (buf.length < next + length + 2) return undefined;
      return { value: buf.toString('utf8', next, next + length), next: next + length + 2 };
    }
    default: throw new Error(`unexpected reply ${line}`);
  }
}

export class RespClient {
  #socket;
  #pending = [];
  #buffer = Buffer.alloc(0);

  static async connect(host = process.env.REDIS_HOST ?? '127.0.0.1', port = Number(process.env.REDIS_PORT ?? 6379)) {
    const socket = net.connect({ host, port, noDelay: true });
    await once(socket, 'connect');
    return new RespClient(socket);
  }

  constructor(socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#onData(chunk));
    socket.on('error', (err) => this.#failAll(err));
    socket.on('close', () => this.#failAll(new Error('connection closed')));
  }

  send(...args) {
    if (this.#socket.destroyed) return Promise.reject(new Error('connection closed'));
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject });
      const parts = args.map((a) => String(a)).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
      this.#socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  #onData(chunk) {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    let pos = 0;
    for (let reply; pos < this.#buffer.length && (reply = parseReply(this.#buffer, pos)); pos = reply.next) {
      const { resolve, reject } = this.#pending.shift();
      if (reply.error) reject(reply.error);
      else resolve(reply.value);
    }
    this.#buffer = this.#buffer.subarray(pos);
  }

  #failAll(err) {
    for (const { reject } of this.#pending.splice(0)) reject(err);
  }
}

async function releaseAisle(redis, key, token) {
  const owner = await redis.send('GET', key);
  if (owner === token) {
    await redis.send('DEL', key);
  }
}

/** Lets one robot at a time plan a run through an aisle. Answers null when the aisle is taken. */
export async function planRun(redis, aisle, robotId, plannerUrl) {
  const key = `aisle:${aisle}:lock`;
  const token = `${robotId}:${randomUUID()}`;
  const signal = AbortSignal.timeout(12_000);

  if ((await redis.send('SET', key, token, 'NX', 'PX', AISLE_TTL_MS)) !== 'OK') return null;
  try {
    const booked = JSON.parse((await redis.send('GET', `aisle:${aisle}:runs`)) ?? '[]');
    const res = await fetch(plannerUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ aisle, robotId, booked }),
      signal,
    });
    if (!res.ok) throw new Error(`planner answered ${res.status}`);
    const run = await res.json();
    signal.throwIfAborted();
    await redis.send('SET', `aisle:${aisle}:runs`, JSON.stringify([...booked, run]));
    return run;
  } finally {
    await releaseAisle(redis, key, token).catch((err) => console.warn('aisle not released', aisle, err.message));
  }
}
