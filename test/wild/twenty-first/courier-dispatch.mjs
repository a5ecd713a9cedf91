// Dispatch service. No redis package here on purpose: the edge image ships only Node itself.
import net from 'node:net';
import { randomUUID } from 'node:crypto';

const REDIS = new URL(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const REPLY_TIMEOUT_MS = 2000;
const SLACK_MS = 250;

const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const arg of args.map(String)) out += `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`;
  return out;
}

// One reply from the front of the buffer, or null when it has not fully arrived.
function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol === -1) return null;
  const head = buf.toString('utf8', 1, eol);
  const size = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case '+': return { value: head, size };
    case ':': return { value: Number(head), size };
    case '-': return { error: new Error(head), size };
    case '$': {
      const length = Number(head);
      if (length < 0) return { value: null, size };
      if (buf.length < size + length + 2) return null;
      return { value: buf.toString('utf8', size, size + length), size: size + length + 2 };
    }
    default: throw new Error(`unexpected reply: ${buf.toString('utf8', 0, 20)}`);
  }
}

class Link {
  #socket; #buffer = Buffer.alloc(0); #pending = []; #dead = null;

  constructor(host, port) {
    this.#socket = net.connect({ host, port, noDelay: true });
    this.#socket.on('data', (chunk) => this.#onData(chunk));
    this.#socket.on('error', (err) => this.close(err));
    this.#socket.on('close', () => this.close(new Error('connection closed')));
  }

  send(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    return new Promise((resolve, reject) => {
      // After a missed reply nothing on this connection can be trusted, so it goes as a whole.
      const timer = setTimeout(() => this.close(new Error(`${args[0]}: no reply`)), REPLY_TIMEOUT_MS);
      this.#pending.push({ resolve, reject, timer });
      this.#socket.write(encode(args));
    });
  }

  close(reason = new Error('link closed')) {
    if (this.#dead) return;
    this.#dead = reason;
    this.#socket.destroy();
    for (const p of this.#pending.splice(0)) {
      clearTimeout(p.timer);
      p.reject(reason);
    }
  }

  #onData(chunk) {
    if (this.#dead) return;
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    try {
      for (let reply = parse(this.#buffer); reply; reply = parse(this.#buffer)) {
        this.#buffer = this.#buffer.subarray(reply.size);
        const p = this.#pending.shift();
        if (!p) throw new Error('reply without a command');
        clearTimeout(p.timer);
        if (reply.error) p.reject(reply.error);
        else p.resolve(reply.value);
      }
    } catch (err) {
      this.close(err);
    }
  }
}

export async function withLock(name, ttlMs, fn) {
  const link = new Link(REDIS.hostname, Number(REDIS.port || 6379));
  const key = `dispatch:lock:${name}`;
  const token = randomUUID();
  try {
    const askedAt = performance.now();
    if ((await link.send('SET', key, token, 'NX', 'PX', ttlMs)) !== 'OK') return { ran: false };
    try {
      const remaining = () => askedAt + ttlMs - SLACK_MS - performance.now();
      return { ran: true, value: await fn({ remaining }) };
    } finally {
      await link.send('EVAL', RELEASE, 1, key, token).catch((err) => console.warn(`${key} left to expire`, err));
    }
  } finally {
    link.close();
  }
}

export function assignCourier(order, couriers, assignments) {
  return withLock(`zone:${order.zone}`, 15_000, async ({ remaining }) => {
    const courier = await couriers.nearestFree(order.zone, order.pickup);
    if (!courier) return null;
    if (remaining() < 3_000) throw new Error(`zone ${order.zone}: candidate search took too long`);
    // One statement; does nothing when the order or the courier is taken already.
    return (await assignments.insertIfBothFree(order.id, courier.id)) ? courier.id : null;
  });
}
