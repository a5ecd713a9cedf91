#!/usr/bin/env node
'use strict';

// Imports the keeper's CSV log of one station. Cron starts this on both
// archive hosts. No redis package on those machines, hence the socket.

const net = require('node:net');
const fs = require('node:fs');
const crypto = require('node:crypto');
const { execFileSync } = require('node:child_process');

const HOST = process.env.REDIS_HOST || '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT || 6379);
const LOCK_MS = 120_000;
const IMPORT_MS = 60_000;

const RELEASE =
  "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const a of args) {
    const s = String(a);
    out += `$${Buffer.byteLength(s)}\r\n${s}\r\n`;
  }
  return out;
}

function decode(line) {
  switch (line[0]) {
    case '+':
      return line.slice(1);
    case ':':
      return Number(line.slice(1));
    case '-':
      throw new Error(line.slice(1));
    default:
      return line;
  }
}

function connect() {
  return new Promise((resolve, reject) => {
    const socket = net.createConnection({ host: HOST, port: PORT });
    socket.setEncoding('utf8');
    socket.once('error', reject);
    socket.once('connect', () => resolve(socket));
  });
}

// one command at a time, all the replies we care about are a single line
function send(socket, ...args) {
  return new Promise((resolve, reject) => {
    let buf = '';
    const onData = (chunk) => {
      buf += chunk;
      const end = buf.indexOf('\r\n');
      if (end === -1) return;
      socket.off('data', onData);
      try {
        resolve(decode(buf.slice(0, end)));
      } catch (err) {
        reject(err);
      }
    };
    socket.on('data', onData);
    socket.once('error', reject);
    socket.write(encode(args));
  });
}

async function acquire(socket, key) {
  const token = crypto.randomBytes(12).toString('hex');
  const reply = await send(socket, 'SET', key, token, 'NX', 'PX', LOCK_MS);
  return reply ? token : null;
}

async function main() {
  const [station, file] = process.argv.slice(2);
  if (!station || !fs.existsSync(file || '')) {
    console.error('usage: lighthouse-log-import <station> <file.csv>');
    process.exit(64);
  }
  const socket = await connect();
  const key = `lighthouse:${station}:import`;
  const token = await acquire(socket, key);
  if (!token) {
    console.log(`${station}: import already running`);
    socket.end();
    return;
  }
  try {
    execFileSync('psql', ['-v', 'ON_ERROR_STOP=1', '-c', `\\copy keeper_log from '${file}' csv header`], {
      stdio: 'inherit',
      timeout: IMPORT_MS,
      killSignal: 'SIGKILL',
    });
    fs.renameSync(file, `${file}.done`);
  } finally {
    await send(socket, 'EVAL', RELEASE, 1, key, token);
    socket.end();
  }
}

main().catch((err) => {
  console.error(err.message);
  process.exit(1);
});
