// A lock without dependencies: about a hundred lines, RESP2 over a plain socket.
import net from 'node:net';
import { randomBytes } from 'node:crypto';

function encode(args) {
  const parts = [`*${args.length}\r\n`];
  for (const a of args) {
    const s = String(a);
    parts.push(`$${Buffer.byteLength(s)}\r\n${s}\r\n`);
  }
  return parts.join('');
}

// Returns [value, nextOffset], or null if the buffer does not hold a whole reply.
function decode(buf, at = 0) {
  const eol = buf.indexOf('\r\n', at);
  if (eol < 0) return null;
  const head = buf.toString('utf8', at + 1, eol);
  const next = eol + 2;
  switch (buf[at]) {
    case 0x2b: return [head, next];
    case 0x2d: return [new Error(head), next];
    case 0x3a: return [Number(head), next];
    case 0x24: {
      const len = Number(head);
      if (len < 0) return [null, next];
      if (buf.length < next + len + 2) return null;
      return [buf.toString('utf8', next, next + len), next + len + 2];
    }
    default: throw new Error(`unexpected reply type ${String.fromCharCode(buf[at])}`);
  }
}

export function connect({ host = '127.0.0.1', port = 6379, timeout = 2000 } = {}) {
  const socket = net.connect({ host, port });
  const pending = [];
  let buf = Buffer.alloc(0);
  let dead = null;

  const fail = (err) => {
    dead ??= err;
    socket.destroy();
    for (const p of pending.splice(0)) {
      clearTimeout(p.timer);
      p.reject(dead);
    }
  };
  socket.setNoDelay(true);
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('connection closed')));
  socket.on('data', (chunk) => {
    buf = Buffer.concat([buf, chunk]);
    try {
      for (let r; pending.length && (r = decode(buf)); ) {
        buf = buf.subarray(r[1]);
        const p = pending.shift();
        clearTimeout(p.timer);
        if (r[0] instanceof Error) p.reject(r[0]);
        else p.resolve(r[0]);
      }
    } catch (err) {
      fail(err);
    }
  });

  return {
    send: (...args) =>
      new Promise((resolve, reject) => {
        if (dead) return reject(dead);
        const timer = setTimeout(() => fail(new Error(`no reply to ${args[0]}`)), timeout);
        pending.push({ resolve, reject, timer });
        socket.write(encode(args));
      }),
    close: () => fail(new Error('closed')),
  };
}

const EXTEND = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0";
const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

/**
 * Resolves to a lease, or to null if someone else has the lock.
 * Split long work into steps shorter than `ttl` and `await lease.renew()` ahead of each one.
 */
export async function tryLock(redis, name, ttl = 10_000) {
  const key = `lock:${name}`;
  const token = randomBytes(20).toString('hex');
  let from = performance.now();
  if ((await redis.send('SET', key, token, 'NX', 'PX', ttl)) !== 'OK') return null;
  let gone = false;

  return {
    remaining: () => (gone ? 0 : Math.max(0, from + ttl - performance.now())),
    async renew() {
      if (gone) throw new Error(`${name}: lock no longer held`);
      const at = performance.now();
      if ((await redis.send('EVAL', EXTEND, 1, key, token, ttl)) !== 1) {
        gone = true;
        throw new Error(`${name}: lock no longer held`);
      }
      from = at;
    },
    // true: given back; false: it had run out before
    async release() {
      gone = true;
      return (await redis.send('EVAL', RELEASE, 1, key, token)) === 1;
    },
  };
}
