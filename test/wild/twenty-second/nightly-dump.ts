#!/usr/bin/env node
// usage: nightly-dump.ts <database> <target file>
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const [database, target] = process.argv.slice(2);
if (!database || !target) {
  console.error('usage: nightly-dump.ts <database> <target file>');
  process.exit(64);
}

const LEASE_MS = 15 * 60_000;
const DUMP_MS = 12 * 60_000;
const ATTEMPTS = 6;
const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

// --- a very small Redis client: one-line replies only, which is all we need ---
type Reply = string | number | null;
const url = new URL(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const socket = net.connect(Number(url.port || 6379), url.hostname);
const pending: { resolve(r: Reply): void; reject(e: Error): void }[] = [];
let buffered = '';
let broken: Error | null = null;

const fail = (err: Error) => {
  broken ??= err;
  for (const p of pending.splice(0)) p.reject(err);
};
socket.setEncoding('utf8');
socket.setKeepAlive(true, 30_000);
socket.on('error', fail);
socket.on('close', () => fail(new Error('redis connection closed')));
socket.on('data', (chunk: string) => {
  buffered += chunk;
  for (let end = buffered.indexOf('\r\n'); end >= 0; end = buffered.indexOf('\r\n')) {
    const line = buffered.slice(0, end);
    buffered = buffered.slice(end + 2);
    const waiter = pending.shift();
    if (line[0] === '-') waiter?.reject(new Error(line.slice(1)));
    else if (line[0] === ':') waiter?.resolve(Number(line.slice(1)));
    else waiter?.resolve(line === '$-1' ? null : line.slice(1));
  }
});

function send(...args: string[]): Promise<Reply> {
  if (broken) return Promise.reject(broken);
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  pending.push({ resolve, reject });
  const parts = args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
  socket.write(`*${args.length}\r\n${parts.join('')}`);
  const timer = setTimeout(() => socket.destroy(new Error('redis timeout')), 10_000);
  return promise.finally(() => clearTimeout(timer));
}

// --- lock, dump, unlock ---
await once(socket, 'connect');
if (url.password) await send('AUTH', decodeURIComponent(url.password));

const key = `dump:${database}`;
let token = '';
for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
  token = randomUUID();
  const reply = await send('SET', key, token, 'NX', 'PX', String(LEASE_MS));
  if (reply === 'OK') break;
  console.error(`${key} is taken, waiting`);
  await sleep(2 ** attempt * 1000 + Math.random() * 500);
}
if (!token) {
  console.error(`could not get ${key}`);
  process.exit(75);
}

try {
  const dump = spawn('pg_dump', ['--format=custom', `--file=${target}`, database], {
    stdio: 'inherit',
    timeout: DUMP_MS,
    killSignal: 'SIGKILL',
  });
  const [code, signal] = await once(dump, 'exit');
  if (code !== 0) {
    console.error(`pg_dump ended with ${signal ?? code}`);
    process.exitCode = 1;
  }
} finally {
  await send('EVAL', UNLOCK, '1', key, token).catch((err) => console.error('unlock:', err.message));
  socket.end();
}
