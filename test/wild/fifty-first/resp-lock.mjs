import net from 'node:net';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const COMPARE_DEL = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const COMPARE_PEXPIRE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

function encode(args) {
  const parts = args.map((arg) => {
    const text = String(arg);
    return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
  });
  return `*${args.length}\r\n${parts.join('')}`;
}

function parse(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return undefined;
  const head = buf.toString('utf8', 1, eol);
  switch (String.fromCharCode(buf[0])) {
    case '+': return { value: head };
    case '-': return { error: new Error(head) };
    case ':': return { value: Number(head) };
    case '$': {
      const length = Number(head);
      if (length < 0) return { value: null };
      const start = eol + 2;
      if (buf.length < start + length + 2) return undefined;
      return { value: buf.toString('utf8', start, start + length) };
    }
    default: return { error: new Error(`unexpected reply ${head}`) };
  }
}

export function command(address, args, timeoutMs = 1000) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(address);
    let buf = Buffer.alloc(0);
    const settle = (fn, value) => {
      clearTimeout(timer);
      socket.destroy();
      fn(value);
    };
    const timer = setTimeout(() => settle(reject, new Error(`${args[0]} timed out`)), timeoutMs);
    socket.on('connect', () => socket.write(encode(args)));
    socket.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      const reply = parse(buf);
      if (!reply) return;
      if (reply.error) settle(reject, reply.error);
      else settle(resolve, reply.value);
    });
    socket.on('error', (err) => settle(reject, err));
    socket.on('close', () => settle(reject, new Error('connection closed')));
  });
}

export async function withLock(address, name, work, { ttlMs = 10_000, waitMs = 5_000 } = {}) {
  const key = `lock:${name}`;
  const token = randomBytes(16).toString('hex');
  const unlock = () => command(address, ['EVAL', COMPARE_DEL, 1, key, token]).catch(() => 0);

  const giveUp = performance.now() + waitMs;
  let since;
  for (;;) {
    since = performance.now();
    let reply;
    try {
      reply = await command(address, ['SET', key, token, 'NX', 'PX', ttlMs], Math.min(1000, ttlMs / 4));
    } catch (err) {
      await unlock();
      throw err;
    }
    if (reply === 'OK') {
      if (performance.now() - since < ttlMs / 2) break;
      await unlock();
    }
    if (performance.now() > giveUp) throw new Error(`${key} is busy`);
    await sleep(40 + Math.random() * 80);
  }

  const lost = new AbortController();
  const lose = () => lost.abort(new Error(`${key} was lost`));
  let done = false;
  let deadline = setTimeout(lose, since + ttlMs * 0.9 - performance.now());
  const renew = setInterval(async () => {
    const sent = performance.now();
    try {
      const n = await command(address, ['EVAL', COMPARE_PEXPIRE, 1, key, token, ttlMs], ttlMs / 4);
      if (done || lost.signal.aborted) return;
      if (n !== 1) return lose();
      clearTimeout(deadline);
      deadline = setTimeout(lose, sent + ttlMs * 0.9 - performance.now());
    } catch (err) {
      console.warn('renew', key, err.message);
    }
  }, ttlMs / 3);

  try {
    const result = await work(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    done = true;
    clearInterval(renew);
    clearTimeout(deadline);
    await unlock();
  }
}
