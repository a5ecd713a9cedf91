import net from 'node:net';
import { randomUUID } from 'node:crypto';

// The city's base image allows no npm packages, so this speaks RESP itself.

const HOST = process.env.REDIS_HOST || '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT || 6379);
const REPLY_TIMEOUT_MS = 3000;

const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

function encode(args) {
  return `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join('');
}

/** Parses one reply; undefined means more bytes are needed. */
function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return undefined;
  const line = buf.slice(1, eol);
  const rest = buf.slice(eol + 2);
  switch (buf[0]) {
    case '+': return { value: line, rest };
    case '-': return { error: new Error(line), rest };
    case ':': return { value: Number(line), rest };
    case '$': {
      const n = Number(line);
      if (n < 0) return { value: null, rest };
      if (rest.length < n + 2) return undefined;
      return { value: rest.slice(0, n), rest: rest.slice(n + 2) };
    }
    default: return { error: new Error(`unexpected reply ${buf[0]}`), rest: '' };
  }
}

class Connection {
  #waiting = [];
  #buf = '';

  constructor() {
    this.socket = net.connect(PORT, HOST);
    this.socket.setEncoding('latin1');
    this.socket.on('data', (chunk) => {
      this.#buf += chunk;
      for (let r = this.#buf && parse(this.#buf); r; r = this.#buf && parse(this.#buf)) {
        this.#buf = r.rest;
        const w = this.#waiting.shift();
        if (w) r.error ? w.reject(r.error) : w.resolve(r.value);
      }
    });
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      for (const w of this.#waiting.splice(0)) w.reject(new Error('redis connection closed'));
    });
  }

  send(...args) {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('redis connection closed'));
      // a late reply cannot be matched any more, so a timeout ends the connection
      const t = setTimeout(() => this.socket.destroy(), REPLY_TIMEOUT_MS);
      this.#waiting.push({
        resolve: (v) => (clearTimeout(t), resolve(v)),
        reject: (e) => (clearTimeout(t), reject(e)),
      });
      this.socket.write(encode(args.map(String)));
    });
  }
}

export async function withLock(name, ttlMs, fn) {
  const token = randomUUID();
  const redis = new Connection();
  try {
    if ((await redis.send('SET', name, token, 'NX', 'PX', ttlMs)) !== 'OK') {
      throw new Error(`${name} is locked`);
    }
    try {
      return await fn();
    } finally {
      await redis.send('EVAL', RELEASE, 1, name, token).catch((e) => console.warn(`unlock ${name}: ${e.message}`));
    }
  } finally {
    redis.socket.destroy();
  }
}

/** Adds a tariff to a zone; the table is a small JSON document, so reading and writing take milliseconds. */
export function addTariff(documents, zone, tariff) {
  return withLock(`parking:tariffs:${zone}`, 15000, async () => {
    const table = await documents.read(zone);
    const clash = table.tariffs.find((t) => t.from < tariff.to && tariff.from < t.to);
    if (clash) throw new RangeError(`overlaps tariff ${clash.id}`);
    await documents.write(zone, { ...table, tariffs: [...table.tariffs, tariff] });
  });
}
