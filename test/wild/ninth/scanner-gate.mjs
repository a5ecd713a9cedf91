// Handheld scanners in the yard: no npm there, so a few lines of RESP by hand.
import net from 'node:net';
import { randomUUID } from 'node:crypto';

const HOST = process.env.REDIS_HOST ?? '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT ?? 6379);
const UNLOCK = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

const encode = (args) =>
  Buffer.concat(
    [Buffer.from(`*${args.length}\r\n`)].concat(
      args.map((a) => {
        const b = Buffer.from(String(a));
        return Buffer.concat([Buffer.from(`$${b.length}\r\n`), b, Buffer.from('\r\n')]);
      }),
    ),
  );

/** One connection, used for one exchange at a time and thrown away at the first trouble. */
class Link {
  constructor() {
    this.buf = Buffer.alloc(0);
    this.pending = [];
    this.dead = null;
    this.sock = net.connect({ host: HOST, port: PORT, noDelay: true });
    this.sock.on('data', (d) => {
      this.buf = Buffer.concat([this.buf, d]);
      this.drain();
    });
    this.sock.on('error', (e) => this.kill(e));
    this.sock.on('close', () => this.kill(new Error('connection closed')));
  }

  kill(err) {
    if (this.dead) return;
    this.dead = err;
    this.sock.destroy();
    for (const p of this.pending.splice(0)) p.reject(err);
  }

  drain() {
    while (!this.dead) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.buf[0]);
      const head = this.buf.toString('utf8', 1, eol);
      let end = eol + 2;
      let value;
      if (type === '+') value = head;
      else if (type === ':') value = Number(head);
      else if (type === '-') value = new Error(head);
      else if (type === '$' && head === '-1') value = null;
      else if (type === '$') {
        end = eol + 2 + Number(head) + 2;
        if (this.buf.length < end) return;
        value = this.buf.toString('utf8', eol + 2, end - 2);
      } else return this.kill(new Error(`unexpected reply ${type}`));
      this.buf = this.buf.subarray(end);
      const p = this.pending.shift();
      if (!p) return this.kill(new Error('reply nobody asked for'));
      if (value instanceof Error) p.reject(value);
      else p.resolve(value);
    }
  }

  send(...args) {
    if (this.dead) return Promise.reject(this.dead);
    return new Promise((resolve, reject) => {
      // replies are matched by order, so after a timeout this socket is of no more use
      const t = setTimeout(() => this.kill(new Error(`${args[0]} timed out`)), 800);
      const done = (f) => (v) => (clearTimeout(t), f(v));
      this.pending.push({ resolve: done(resolve), reject: done(reject) });
      this.sock.write(encode(args));
    });
  }
}

let link = null;
const redis = (...args) => {
  if (!link || link.dead) link = new Link();
  return link.send(...args);
};

/**
 * Runs fn while this gate is ours, at most ttl ms. fn gets a function to call
 * before each movement; it throws when the time is up.
 */
export async function withGate(gate, ttl, fn) {
  const key = `yard:gate:${gate}`;
  const token = randomUUID();
  const until = performance.now() + ttl - ttl * 0.02 - 20;
  let mine = false;
  try {
    mine = (await redis('SET', key, token, 'NX', 'PX', ttl)) === 'OK';
    if (!mine) return { ran: false };
    const check = () => {
      if (performance.now() >= until) throw new Error(`gate ${gate}: time is up`);
    };
    check();
    return { ran: true, value: await fn(check) };
  } catch (err) {
    if (!mine) mine = true; // the SET may have got through without its answer
    throw err;
  } finally {
    if (mine) await redis('EVAL', UNLOCK, 1, key, token).catch((e) => console.warn(`gate ${gate}: ${e.message}`));
  }
}
