#!/usr/bin/env node
// Nightly dump of the primary. Started by systemd timers on both bastion hosts;
// only the one that gets the lock dumps and replaces latest.dump on the shared volume.
//
//   REDIS_HOST=... PGDATABASE=... BACKUP_DIR=/mnt/backup node pg-backup.mjs
//
// No npm dependencies on the bastions, therefore the few lines of RESP below.
import net from 'node:net';
import path from 'node:path';
import { randomBytes } from 'node:crypto';
import { spawn } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';

const { REDIS_HOST = '127.0.0.1', REDIS_PORT = '6379', REDIS_PASSWORD, BACKUP_DIR = '/var/backups/pg' } = process.env;
const KEY = `lock:pg-backup:${process.env.PGDATABASE ?? 'app'}`;
const TTL_MS = 30 * 60_000;
const DUMP_LIMIT_MS = 20 * 60_000; // pg_dump is killed at this point, well before the key goes
const RELEASE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

const encode = (args) =>
  `*${args.length}\r\n` + args.map(String).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join('');

/** One connection per command; resolves with the raw reply line. Every command used here has a one-line reply. */
function redis(...args) {
  const commands = REDIS_PASSWORD ? [['AUTH', REDIS_PASSWORD], args] : [args];
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: REDIS_HOST, port: Number(REDIS_PORT) });
    let text = '';
    socket.setTimeout(5_000, () => socket.destroy(new Error('redis timed out')));
    socket.on('connect', () => socket.write(commands.map(encode).join('')));
    socket.on('data', (chunk) => {
      text += chunk.toString('utf8');
      const lines = text.split('\r\n').slice(0, -1);
      const error = lines.find((l) => l.startsWith('-'));
      if (error) {
        socket.destroy(new Error(`redis: ${error.slice(1)}`));
      } else if (lines.length >= commands.length) {
        resolve(lines[commands.length - 1]);
        socket.end();
      }
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('redis closed the connection')));
  });
}

function dump(file, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn('pg_dump', ['--format=custom', '--no-password', `--file=${file}`], {
      stdio: ['ignore', 'inherit', 'inherit'],
      timeout: DUMP_LIMIT_MS,
      killSignal: 'SIGKILL',
      signal,
    });
    child.on('error', reject);
    child.on('exit', (code, sig) => (code === 0 ? resolve() : reject(new Error(`pg_dump ended with ${sig ?? code}`))));
  });
}

async function main() {
  const interrupted = new AbortController();
  for (const s of ['SIGINT', 'SIGTERM']) process.once(s, () => interrupted.abort());

  const token = randomBytes(16).toString('hex');
  const startedAt = performance.now();
  const reply = await redis('SET', KEY, token, 'NX', 'PX', TTL_MS);
  if (reply === '$-1') {
    console.log('another host is dumping, nothing to do');
    return 0;
  }
  if (reply !== '+OK') throw new Error(`unexpected reply to SET: ${reply}`);

  // Own file per run, so even an orphaned pg_dump never writes into somebody else's.
  const partial = path.join(BACKUP_DIR, `.partial-${token}.dump`);
  try {
    await dump(partial, interrupted.signal);
    if (performance.now() - startedAt > TTL_MS - 60_000) throw new Error('took too long, lock no longer certain');
    await rename(partial, path.join(BACKUP_DIR, 'latest.dump'));
    console.log('backup done in %ds', Math.round((performance.now() - startedAt) / 1000));
    return 0;
  } finally {
    await rm(partial, { force: true }).catch((err) => console.warn('cannot remove %s: %s', partial, err.message));
    await redis('EVAL', RELEASE, 1, KEY, token).catch((err) => console.warn('unlock failed: %s', err.message));
  }
}

main().then(
  (code) => (process.exitCode = code),
  (err) => {
    console.error(err);
    process.exitCode = 1;
  },
);
