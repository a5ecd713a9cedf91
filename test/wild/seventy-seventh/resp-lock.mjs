// Small lock client without dependencies, for the edge boxes in the barns where we cannot
// install packages. Speaks just enough RESP2 for SET and EVAL.
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const CRLF = '\r\n';
const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

function encode(args) {
  const parts = args.map((arg) => {
    const text = String(arg);
    return `$${Buffer.byteLength(text)}${CRLF}${text}${CRLF}`;
  });
  return `*${args.length}${CRLF}${parts.join('')}`;
}

/** Reads one reply from the start of the buffer, undefined if it is not complete yet. */
function decode(buffer) {
  const end = buffer.indexOf(CRLF);
  if (end === -1) return undefined;
  const type = String.fromCharCode(buffer[0]);
  const line = buffer.toString('utf8', 1, end);
  const next = end + 2;

  switch (type) {
    case '+':
    case '-':
      return { value: line, size: next };
    case ':':
      return { value: Number(line), size: next };
    case '$': {
      const length = Number(line);
      if (length === -1) return { value: null, size: next };
      if (buffer.length < next + length + 2) return undefined;
      return { value: buffer.toString('utf8', next, next + length), size: next + length + 2 };
    }
    default:
      throw new Error(`unexpected RESP type ${type}`);
  }
}

export class RespConnection {
  #socket;
  #pending = [];
  #buffer = Buffer.alloc(0);

  constructor({ host = '127.0.0.1', port = 6379, timeoutMs = 2000 } = {}) {
    this.#socket = net.connect({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.setTimeout(timeoutMs, () => {
      if (this.#pending.length > 0) this.#socket.destroy(new Error('redis timed out'));
    });
    this.#socket.on('data', (chunk) => this.#onData(chunk));
    this.#socket.on('error', (err) => this.#failAll(err));
    this.#socket.on('close', () => this.#failAll(new Error('redis connection closed')));
  }

  command(...args) {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('redis connection closed'));
      this.#pending.push({ resolve, reject });
      this.#socket.write(encode(args));
    });
  }

  close() {
    this.#socket.end();
  }

  #onData(chunk) {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    try {
      for (let reply = decode(this.#buffer); reply; reply = decode(this.#buffer)) {
        this.#buffer = this.#buffer.subarray(reply.size);
        this.#pending.shift()?.resolve(reply.value);
      }
    } catch (err) {
      this.#socket.destroy(err);
    }
  }

  #failAll(err) {
    for (const { reject } of this.#pending.splice(0)) reject(err);
  }
}

/** Resolves to a token, or to null if somebody else has had the lock for all of `waitMs`. */
export async function lock(connection, name, { ttlMs = 30_000, waitMs = 5_000 } = {}) {
  const token = randomUUID();
  const giveUpAt = Date.now() + waitMs;
  for (;;) {
    const reply = await connection.command('SET', `lock:${name}`, token, 'NX', 'PX', ttlMs);
    if (reply !== null) return token;
    if (Date.now() >= giveUpAt) return null;
    await sleep(100 + Math.random() * 100);
  }
}

export async function unlock(connection, name, token) {
  return (await connection.command('EVAL', UNLOCK, 1, `lock:${name}`, token)) === 1;
}
