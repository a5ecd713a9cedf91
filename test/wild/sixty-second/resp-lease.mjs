// Redis lease without dependencies: just enough RESP2 over TLS for SET and EVAL.
import tls from 'node:tls';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const RELEASE = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end`;
const RENEW = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end`;

const encode = (args) =>
  `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');

function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol === -1) return null;
  const line = buf.toString('utf8', 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case '+': return { value: line, next };
    case '-': return { error: new Error(line), next };
    case ':': return { value: Number(line), next };
    case '$': {
      const len = Number(line);
      if (len < 0) return { value: null, next };
      if (buf.length < next + len + 2) return null;
      return { value: buf.toString('utf8', next, next + len), next: next + len + 2 };
    }
    default: throw new Error(`unexpected reply: ${line}`);
  }
}

function open({ host, port = 6379, password, timeout }, onClose) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host, port, servername: host });
    const pending = [];
    let buf = Buffer.alloc(0);
    let cause = new Error('connection closed');
    // Replies are matched by order only, so a timeout ends the connection.
    const deadline = (what) => setTimeout(() => socket.destroy(new Error(`${what} timed out`)), timeout);

    const conn = {
      call: (...args) =>
        new Promise((res, rej) => {
          if (socket.destroyed) return rej(cause);
          pending.push({ res, rej, timer: deadline(args[0]) });
          socket.write(encode(args));
        }),
    };

    const connecting = deadline('connect');
    socket.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      try {
        for (let reply; buf.length && (reply = parse(buf)); ) {
          buf = buf.subarray(reply.next);
          const { res, rej, timer } = pending.shift();
          clearTimeout(timer);
          reply.error ? rej(reply.error) : res(reply.value);
        }
      } catch (err) { socket.destroy(err); }
    });
    socket.on('error', (err) => (cause = err));
    socket.on('close', () => {
      clearTimeout(connecting);
      onClose();
      reject(cause);
      for (const p of pending.splice(0)) { clearTimeout(p.timer); p.rej(cause); }
    });
    socket.once('secureConnect', () => {
      clearTimeout(connecting);
      const auth = password ? conn.call('AUTH', password) : Promise.resolve();
      auth.then(() => resolve(conn), (err) => { reject(err); socket.destroy(); });
    });
  });
}

export class LeaseClient {
  #conn = null;
  constructor(options) { this.options = { timeout: 2_000, ...options }; }
  async call(...args) {
    if (!this.#conn) {
      const opening = open(this.options, () => { if (this.#conn === opening) this.#conn = null; });
      this.#conn = opening;
    }
    return (await this.#conn).call(...args);
  }

  /**
   * Runs fn(signal) while holding `key`; resolves to { ran: false } when someone else has it.
   * The signal fires while there is still `grace` ms of the lease left.
   */
  async run(key, fn, { ttl = 20_000, grace = 3_000 } = {}) {
    const token = randomBytes(16).toString('hex');
    let sentAt = performance.now();
    if ((await this.call('SET', key, token, 'NX', 'PX', ttl)) !== 'OK') return { ran: false };

    const lost = new AbortController();
    const done = new AbortController();
    let alarm;
    const arm = () => {
      clearTimeout(alarm);
      const left = Math.max(0, sentAt + ttl - grace - performance.now());
      alarm = setTimeout(() => lost.abort(new Error(`lease on ${key} ran out`)), left);
    };
    arm();
    const renewing = (async () => {
      while (true) {
        await sleep(ttl / 4, null, { signal: done.signal }).catch(() => {});
        if (done.signal.aborted || lost.signal.aborted) return;
        const at = performance.now();
        try {
          const ok = await this.call('EVAL', RENEW, 1, key, token, ttl);
          if (ok !== 1) return lost.abort(new Error(`lease on ${key} was taken over`));
          if (!lost.signal.aborted) { sentAt = at; arm(); }
        } catch (err) {
          console.warn('renewing %s failed, will try again: %s', key, err.message);
        }
      }
    })();

    try {
      if (performance.now() >= sentAt + ttl - grace) throw new Error(`lease on ${key} came too late`);
      return { ran: true, value: await fn(lost.signal) };
    } finally {
      done.abort();
      await renewing;
      clearTimeout(alarm);
      await this.call('EVAL', RELEASE, 1, key, token).catch((err) => console.warn('release of %s failed: %s', key, err.message));
    }
  }
}
