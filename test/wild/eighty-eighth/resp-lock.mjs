import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

export class MiniRedis {
  #link = null;

  constructor({ host = '127.0.0.1', port = 6379, password, timeoutMs = 1500 } = {}) {
    Object.assign(this, { host, port, password, timeoutMs });
  }

  send(...args) {
    const link = this.#open();
    return link.call(args, this.timeoutMs);
  }

  close() {
    this.#link?.sock.end();
  }

  #open() {
    if (this.#link && this.#link.sock.writable) return this.#link;
    const sock = net.connect(this.port, this.host).setNoDelay(true);
    const waiting = [];
    let buf = Buffer.alloc(0);
    let fault = new Error('redis connection closed');
    sock.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      for (let r; (r = parse(buf)); buf = buf.subarray(r.end)) waiting.shift()?.(r.value);
    });
    sock.on('error', (err) => { fault = err; });
    sock.on('close', () => waiting.splice(0).forEach((settle) => settle(fault)));
    const call = (args, ms) => new Promise((resolve, reject) => {
      const timer = setTimeout(() => sock.destroy(new Error(`redis ${args[0]} timed out`)), ms);
      waiting.push((v) => {
        clearTimeout(timer);
        if (v instanceof Error) reject(v);
        else resolve(v);
      });
      sock.write(encode(args));
    });
    this.#link = { sock, call };
    if (this.password) call(['AUTH', this.password], this.timeoutMs).catch((err) => sock.destroy(err));
    return this.#link;
  }
}

/** Rotates lamps, horns, radar: one controller per device. fn has to obey the signal. */
export async function withDevice(redis, device, fn, { ttlMs = 15_000, marginMs = 2_000, tries = 20 } = {}) {
  const key = `lighthouse:${device}:lock`;
  const token = randomUUID();
  let deadline;
  for (let i = 0; ; i++) {
    if (i === tries) throw new Error(`${device} is busy`);
    deadline = performance.now() + ttlMs - marginMs;
    if ((await redis.send('SET', key, token, 'NX', 'PX', ttlMs)) === 'OK') break;
    await sleep(150 + Math.random() * 200);
  }
  const signal = AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now())));
  try {
    const out = await fn(signal);
    signal.throwIfAborted();
    return out;
  } finally {
    await redis.send('EVAL', RELEASE, 1, key, token).catch((err) => console.warn(`unlock ${device}: ${err.message}`));
  }
}

function encode(args) {
  return args.map(String).reduce((out, a) => `${out}$${Buffer.byteLength(a)}\r\n${a}\r\n`, `*${args.length}\r\n`);
}

function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const head = buf.toString('utf8', 1, eol);
  const end = eol + 2;
  switch (buf[0]) {
    case 0x2b: return { value: head, end };
    case 0x2d: return { value: new Error(head), end };
    case 0x3a: return { value: Number(head), end };
    default: break;
  }
  const len = Number(head);
  if (len < 0) return { value: null, end };
  if (buf.length < end + len + 2) return null;
  return { value: buf.toString('utf8', end, end + len), end: end + len + 2 };
}
