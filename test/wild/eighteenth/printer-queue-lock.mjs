// Label printers take one job at a time. The packing stations have no redis package, so plain RESP over a socket.
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const ANSWER_MS = 2_000;
const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

const encode = (args) =>
  `*${args.length}\r\n` + args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`).join('');

/** One connection per command; SET and EVAL as used here only have one-line replies. */
function redis(...command) {
  const { hostname, port, username, password, pathname } = new URL(process.env.REDIS_URL);
  const commands = [command];
  if (pathname.length > 1) commands.unshift(['SELECT', pathname.slice(1)]);
  if (password) {
    commands.unshift(['AUTH', decodeURIComponent(username) || 'default', decodeURIComponent(password)]);
  }

  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: hostname, port: Number(port || 6379), noDelay: true });
    const finish = (err, value) => {
      clearTimeout(timer);
      socket.destroy();
      if (err) reject(err);
      else resolve(value);
    };
    const timer = setTimeout(() => finish(new Error(`no answer to ${command[0]}`)), ANSWER_MS);
    let input = '';
    socket.setEncoding('utf8');
    socket.on('connect', () => socket.write(commands.map(encode).join('')));
    socket.on('error', (err) => finish(err));
    socket.on('close', () => finish(new Error('connection closed')));
    socket.on('data', (chunk) => {
      input += chunk;
      const lines = input.split('\r\n');
      if (lines.length <= commands.length) return; // the last piece is not a whole line
      const replies = lines.slice(0, commands.length);
      const failed = replies.find((line) => line.startsWith('-'));
      if (failed) return finish(new Error(`redis: ${failed.slice(1)}`));
      const reply = replies[replies.length - 1];
      if (reply === '$-1') finish(null, null);
      else if (reply.startsWith('+')) finish(null, reply.slice(1));
      else if (reply.startsWith(':')) finish(null, Number(reply.slice(1)));
      else finish(new Error(`unexpected reply ${reply}`));
    });
  });
}

/**
 * Waits for the printer, runs job(signal) and frees the printer again.
 * The signal fires a little before the lock's time is up.
 */
export async function withPrinter(printer, job, { ttlMs = 20_000, waitMs = 30_000 } = {}) {
  const key = `printer:${printer}`;
  const token = randomUUID();
  const free = () =>
    redis('EVAL', RELEASE, 1, key, token).catch((err) => console.warn('%s stays until its TTL: %s', key, err.message));
  const giveUpAt = performance.now() + waitMs;

  for (;;) {
    const sentAt = performance.now();
    let reply;
    try {
      reply = await redis('SET', key, token, 'NX', 'PX', ttlMs);
    } catch (err) {
      await free(); // the SET may have arrived all the same
      throw err;
    }
    if (reply === 'OK') {
      const validUntil = sentAt + ttlMs * 0.9;
      try {
        const left = Math.floor(validUntil - performance.now());
        if (left <= 0) throw new Error(`${key} was granted too late`);
        const result = await job(AbortSignal.timeout(left));
        if (performance.now() >= validUntil) throw new Error(`${key} lapsed during the job`);
        return result;
      } finally {
        await free();
      }
    }
    if (performance.now() >= giveUpAt) throw new Error(`${key} is busy`);
    await sleep(100 + Math.random() * 200);
  }
}
