#!/usr/bin/env -S npx tsx
// Usage: deploy-lock.ts <environment> -- keeps two CI jobs from migrating the same database at once.
// Speaks RESP directly so that the deploy image needs no node_modules.
import { randomUUID } from 'node:crypto';
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const HOST = process.env.REDIS_HOST ?? '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT ?? 6379);

/** One command on its own connection. Enough for status, integer and nil replies. */
function send(...args: string[]): Promise<string | number | null> {
  return new Promise((resolve, reject) => {
    const socket = connect(PORT, HOST);
    let data = '';
    const done = (fn: () => void) => {
      socket.destroy();
      fn();
    };
    socket.setTimeout(5_000, () => done(() => reject(new Error('redis timeout'))));
    socket.on('error', (err) => done(() => reject(err)));
    socket.on('close', () => reject(new Error('redis closed the connection')));
    socket.on('connect', () => {
      const body = args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join('');
      socket.write(`*${args.length}\r\n${body}`);
    });
    socket.on('data', (chunk) => {
      data += chunk.toString('utf8');
      const eol = data.indexOf('\r\n');
      if (eol < 0) return;
      const [type, rest] = [data[0], data.slice(1, eol)];
      if (type === '+') done(() => resolve(rest));
      else if (type === ':') done(() => resolve(Number(rest)));
      else if (type === '$' && rest === '-1') done(() => resolve(null));
      else done(() => reject(new Error(`redis: ${rest}`)));
    });
  });
}

const UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

async function acquire(key: string, token: string, waitMs: number): Promise<boolean> {
  const until = Date.now() + waitMs;
  do {
    if ((await send('SET', key, token, 'NX')) === 'OK') return true;
    await sleep(2_000);
  } while (Date.now() < until);
  return false;
}

async function release(key: string, token: string): Promise<void> {
  const removed = await send('EVAL', UNLOCK, '1', key, token);
  if (removed !== 1) console.warn(`${key} was not ours any more`);
}

function migrate(environment: string, signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn('./bin/migrate', ['--env', environment], { stdio: 'inherit', signal });
    child.on('error', (err) => {
      if (child.pid === undefined) reject(err); // could not be started; after an abort we wait for the exit
    });
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

const environment = process.argv[2] ?? 'staging';
const key = `deploy-lock:${environment}`;
const token = `${process.env.CI_JOB_ID ?? 'local'}-${randomUUID()}`;

if (!(await acquire(key, token, 10 * 60_000))) {
  console.error(`another deployment of ${environment} is still running`);
  process.exit(75);
}

// A cancelled job gets SIGTERM from the runner: stop migrating, then the finally below cleans up,
// so the lock is never left behind.
const cancelled = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => cancelled.abort());

try {
  process.exitCode = await migrate(environment, cancelled.signal);
} catch (err) {
  console.error(err);
  process.exitCode = 1;
} finally {
  await release(key, token);
}
