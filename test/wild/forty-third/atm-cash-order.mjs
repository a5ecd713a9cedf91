import { connect } from 'node:net';
import { randomUUID } from 'node:crypto';

/*
 * Cash orders for the ATM estate. The appliance image carries no npm modules, hence the small
 * RESP2 client. Replenishment is evaluated by two sites; one cash order per machine is open at
 * a time, the carrier charges for every one it receives.
 */
const LOCK_MS = 60_000; // two calls to the carrier, 10s each at the very most

const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

class Resp {
  #socket;
  #buffer = Buffer.alloc(0);
  #pending = [];

  constructor(host, port) {
    this.#socket = connect({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (chunk) => {
      this.#buffer = Buffer.concat([this.#buffer, chunk]);
      this.#drain();
    });
    this.#socket.on('error', (err) => this.#fail(err));
    this.#socket.on('close', () => this.#fail(new Error('connection closed')));
  }

  send(...args) {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('connection closed'));
      this.#pending.push({ resolve, reject });
      const body = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
      this.#socket.write(`*${args.length}\r\n${body}`);
    });
  }

  end() {
    this.#socket.end();
  }

  #fail(err) {
    for (const p of this.#pending.splice(0)) p.reject(err);
  }

  #drain() {
    for (;;) {
      const eol = this.#buffer.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.#buffer[0]);
      const head = this.#buffer.toString('utf8', 1, eol);
      let end = eol + 2;
      let value = type === ':' ? Number(head) : head;
      if (type === '$') {
        const length = Number(head);
        if (length < 0) value = null;
        else {
          if (this.#buffer.length < end + length + 2) return;
          value = this.#buffer.toString('utf8', end, end + length);
          end += length + 2;
        }
      }
      this.#buffer = this.#buffer.subarray(end);
      const { resolve, reject } = this.#pending.shift();
      if (type === '-') reject(new Error(head));
      else resolve(value);
    }
  }
}

async function acquire(resp, key) {
  const token = randomUUID();
  try {
    await resp.send('SET', key, token, 'NX', 'PX', LOCK_MS);
    return token;
  } catch (err) {
    console.warn(`${key}: not acquired (${err.message})`);
    return null;
  }
}

async function carrier(path, init = {}) {
  const res = await fetch(new URL(path, process.env.CARRIER_URL), { ...init, signal: AbortSignal.timeout(10_000) });
  if (!res.ok) throw new Error(`carrier: ${res.status}`);
  return res.json();
}

export async function replenish(atmId, notes) {
  const resp = new Resp(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379));
  const key = `atm:${atmId}:cash-order`;
  try {
    const token = await acquire(resp, key);
    if (!token) return { ordered: false };
    try {
      const open = await carrier(`/orders?atm=${encodeURIComponent(atmId)}&state=open`);
      if (open.length > 0) return { ordered: false };
      const order = await carrier('/orders', { method: 'POST', body: JSON.stringify({ atmId, notes }) });
      return { ordered: true, id: order.id };
    } finally {
      await resp.send('EVAL', RELEASE, 1, key, token);
    }
  } finally {
    resp.end();
  }
}
