import net from 'node:net';
import { randomUUID } from 'node:crypto';

// No client library on the kiosk image, so a little RESP by hand. One short-lived connection
// per call, commands strictly one after the other.

const HOST = process.env.REDIS_HOST ?? '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT ?? 6379);
const CALL_MS = 2_000;
const TTL_MS = 30_000;
const MARGIN_MS = 3_000;

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

function encode(args) {
  return `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
}

// All replies we ever get fit on one line: +OK, $-1, :1, -ERR ...
function decode(line) {
  switch (line[0]) {
    case '+':
      return line.slice(1);
    case ':':
      return Number(line.slice(1));
    case '-':
      throw new Error(`redis: ${line.slice(1)}`);
    case '$':
      if (line === '$-1') return null;
    // falls through
    default:
      throw new Error(`unexpected reply ${line}`);
  }
}

function call(...args) {
  return new Promise((resolve, reject) => {
    const queue = [];
    if (process.env.REDIS_PASSWORD) queue.push(['AUTH', process.env.REDIS_PASSWORD]);
    queue.push(args);

    const socket = net.connect(PORT, HOST);
    let buffered = '';
    const timer = setTimeout(() => fail(new Error('redis timed out')), CALL_MS);
    const fail = (err) => {
      clearTimeout(timer);
      socket.destroy();
      reject(err);
    };
    const next = () => socket.write(encode(queue[0]));

    socket.setEncoding('utf8');
    socket.on('connect', next);
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('redis hung up')));
    socket.on('data', (chunk) => {
      buffered += chunk;
      const end = buffered.indexOf('\r\n');
      if (end < 0) return;
      const line = buffered.slice(0, end);
      buffered = buffered.slice(end + 2);
      try {
        const value = decode(line);
        queue.shift();
        if (queue.length) return next();
        clearTimeout(timer);
        resolve(value);
        socket.destroy();
      } catch (err) {
        fail(err);
      }
    });
  });
}

async function unlock(key, token) {
  try {
    await call('EVAL', UNLOCK, 1, key, token);
  } catch (err) {
    console.warn(`gate ${key} not released (${err.message}), it opens in ${TTL_MS} ms at the latest`);
  }
}

/** Runs fn with an AbortSignal, or returns false if another kiosk is in. */
export async function throughGate(name, fn) {
  const key = `kiosk:gate:${name}`;
  const token = randomUUID();
  const t0 = performance.now();
  try {
    if ((await call('SET', key, token, 'NX', 'PX', TTL_MS)) !== 'OK') return false;
    const ms = Math.floor(t0 + TTL_MS - MARGIN_MS - performance.now());
    await fn(AbortSignal.timeout(ms));
    return true;
  } finally {
    await unlock(key, token);
  }
}

export async function printWristbands(orderId, printer) {
  return throughGate('printer-1', async (signal) => {
    const jobs = await printer.jobsOf(orderId, { signal });
    for (const job of jobs) {
      signal.throwIfAborted();
      await printer.print(job, { timeoutMs: 1_500 }); // the printer itself drops it after that
    }
  });
}
