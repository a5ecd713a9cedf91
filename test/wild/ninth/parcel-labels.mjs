// Label printer daemon. Talks to Redis directly, the image has no node_modules.
import { createConnection } from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const UNLOCK = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0`;

export class MiniRedis {
  #url;
  #socket = null;
  #waiting = [];
  #rest = Buffer.alloc(0);

  constructor(url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379') {
    this.#url = new URL(url);
  }

  #connect() {
    if (this.#socket) return this.#socket;
    const socket = createConnection(Number(this.#url.port || 6379), this.#url.hostname);
    socket.setNoDelay(true);
    this.#rest = Buffer.alloc(0);
    const gone = (err) => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      socket.destroy();
      for (const w of this.#waiting.splice(0)) w.reject(err);
    };
    socket.on('data', (chunk) => {
      if (this.#socket === socket) this.#feed(chunk);
    });
    socket.on('error', gone);
    socket.on('close', () => gone(new Error('redis went away')));
    return (this.#socket = socket);
  }

  #feed(chunk) {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const nl = this.#rest.indexOf('\r\n');
      if (nl === -1) return;
      const line = this.#rest.toString('utf8', 0, nl);
      let used = nl + 2;
      let reply;
      switch (line[0]) {
        case '+': reply = line.slice(1); break;
        case ':': reply = Number(line.slice(1)); break;
        case '-': reply = new Error(line.slice(1)); break;
        case '$': {
          const len = Number(line.slice(1));
          if (len < 0) { reply = null; break; }
          if (this.#rest.length < used + len + 2) return;
          reply = this.#rest.toString('utf8', used, used + len);
          used += len + 2;
          break;
        }
        default:
          this.#socket.destroy(new Error(`cannot parse ${line}`));
          return;
      }
      this.#rest = this.#rest.subarray(used);
      const waiter = this.#waiting.shift();
      if (reply instanceof Error) waiter?.reject(reply);
      else waiter?.resolve(reply);
    }
  }

  command(args, timeout = 500) {
    const parts = args.map((a) => Buffer.from(String(a)));
    const head = `*${parts.length}\r\n`;
    const body = parts.flatMap((b) => [Buffer.from(`$${b.length}\r\n`), b, Buffer.from('\r\n')]);
    const socket = this.#connect();
    return new Promise((resolve, reject) => {
      const waiter = {};
      const timer = setTimeout(() => {
        const i = this.#waiting.indexOf(waiter);
        if (i !== -1) this.#waiting.splice(i, 1);
        reject(new Error(`${args[0]}: no reply within ${timeout} ms`));
      }, timeout);
      waiter.resolve = (v) => { clearTimeout(timer); resolve(v); };
      waiter.reject = (e) => { clearTimeout(timer); reject(e); };
      this.#waiting.push(waiter);
      socket.write(Buffer.concat([Buffer.from(head), ...body]));
    });
  }
}

/** print(check) runs while the printer is ours, ttl ms at most; check() before each label. */
export async function withPrinter(redis, printer, print, { ttl = 10_000, tries = 10 } = {}) {
  const key = `printer:${printer}`;
  for (let i = 0; i < tries; i++) {
    const token = randomUUID();
    const until = performance.now() + ttl - 250;
    const unlock = () =>
      redis.command(['EVAL', UNLOCK, 1, key, token]).catch((e) => console.warn(`${printer}: unlock: ${e.message}`));
    let got = null;
    try {
      got = await redis.command(['SET', key, token, 'PX', ttl, 'NX']);
    } catch (err) {
      console.warn(`${printer}: lock: ${err.message}`);
      await unlock();
    }
    if (got === 'OK') {
      try {
        return await print(() => {
          if (performance.now() >= until) throw new Error(`${printer}: time is up`);
        });
      } finally {
        await unlock();
      }
    }
    await sleep(200 + Math.random() * 200);
  }
  throw new Error(`${printer} is busy`);
}
