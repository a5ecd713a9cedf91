'use strict';

// Runs pg_dump on one of the database hosts at a time. These hosts have no
// node_modules, hence the few lines of RESP.

const net = require('node:net');
const fs = require('node:fs/promises');
const { spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');

const REDIS_HOST = process.env.REDIS_HOST || '127.0.0.1';
const REDIS_PORT = Number(process.env.REDIS_PORT || 6379);
const REDIS_PASSWORD = process.env.REDIS_PASSWORD || '';
const COMMAND_TIMEOUT_MS = 3_000;

const KEY = 'ops:backup:lock';
const TTL_MS = 60_000;
const RENEW_EVERY_MS = 15_000;
const SAFETY_MS = 5_000;

const RENEW =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

function encode(args) {
  const parts = args.map((arg) => `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`);
  return `*${args.length}\r\n${parts.join('')}`;
}

/** Returns undefined while the reply is not complete. */
function parse(buffer, offset) {
  const eol = buffer.indexOf('\r\n', offset);
  if (eol === -1) return undefined;
  const line = buffer.toString('utf8', offset + 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buffer[offset])) {
    case '+':
      return { value: line, next };
    case '-':
      return { value: new Error(line), next };
    case ':':
      return { value: Number(line), next };
    case '$': {
      const length = Number(line);
      if (length === -1) return { value: null, next };
      if (buffer.length < next + length + 2) return undefined;
      return { value: buffer.toString('utf8', next, next + length), next: next + length + 2 };
    }
    default:
      return { value: new Error('unexpected reply type'), next };
  }
}

/** One connection for each command: there are four a minute. */
function command(...args) {
  return new Promise((resolve, reject) => {
    const expected = REDIS_PASSWORD ? 2 : 1;
    const socket = net.connect({ host: REDIS_HOST, port: REDIS_PORT });
    const timer = setTimeout(() => socket.destroy(new Error('redis timed out')), COMMAND_TIMEOUT_MS);
    let buffer = Buffer.alloc(0);

    socket.on('connect', () => {
      if (REDIS_PASSWORD) socket.write(encode(['AUTH', REDIS_PASSWORD]));
      socket.write(encode(args));
    });
    socket.on('data', (chunk) => {
      buffer = Buffer.concat([buffer, chunk]);
      let offset = 0;
      for (let i = 1; i <= expected; i += 1) {
        const reply = parse(buffer, offset);
        if (!reply) return;
        if (reply.value instanceof Error) return void socket.destroy(reply.value);
        offset = reply.next;
        if (i === expected) resolve(reply.value);
      }
      socket.end();
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(timer);
      reject(new Error('redis closed the connection'));
    });
  });
}

async function runBackup(databaseUrl, target) {
  const token = randomBytes(20).toString('hex');
  const requestedAt = performance.now();
  if ((await command('SET', KEY, token, 'NX', 'PX', String(TTL_MS))) !== 'OK') return false;

  let validUntil = requestedAt + TTL_MS - SAFETY_MS;
  const partial = `${target}.${token}.partial`;
  const child = spawn('pg_dump', ['--format=custom', `--file=${partial}`, databaseUrl], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const exited = new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code));
  });

  let lost = false;
  let renewing = false;
  const giveUp = (why) => {
    if (!lost) console.error(`backup: giving up, ${why}`);
    lost = true;
    child.kill('SIGKILL');
  };
  const watchdog = setInterval(() => {
    if (performance.now() >= validUntil) giveUp('lease deadline passed');
  }, 500);
  const renewal = setInterval(async () => {
    if (renewing || lost) return;
    renewing = true;
    const sentAt = performance.now();
    try {
      const renewed = await command('EVAL', RENEW, '1', KEY, token, String(TTL_MS));
      if (renewed === 1) validUntil = sentAt + TTL_MS - SAFETY_MS;
      else giveUp('lease is gone');
    } catch (err) {
      console.error(`backup: renewal failed: ${err.message}`);
    } finally {
      renewing = false;
    }
  }, RENEW_EVERY_MS);

  try {
    const code = await exited;
    if (lost || performance.now() >= validUntil) throw new Error('lease lost during pg_dump');
    if (code !== 0) throw new Error(`pg_dump exited with ${code}`);
    await fs.rename(partial, target);
    return true;
  } finally {
    clearInterval(watchdog);
    clearInterval(renewal);
    await fs.rm(partial, { force: true });
    await command('EVAL', RELEASE, '1', KEY, token).catch((err) => console.error(err.message));
  }
}

const { DATABASE_URL, BACKUP_FILE } = process.env;
if (!DATABASE_URL || !BACKUP_FILE) throw new Error('DATABASE_URL and BACKUP_FILE are needed');
runBackup(DATABASE_URL, BACKUP_FILE).then(
  (ran) => console.log(ran ? 'backup: done' : 'backup: running elsewhere'),
  (err) => {
    console.error(err);
    process.exitCode = 1;
  },
);
