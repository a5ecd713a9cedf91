'use strict';

// Prints parcel labels on the Zebra printers of the packing stations. A printer mixes up
// the labels of two senders that talk at once, so each job takes the printer's lock first.
// Runs on the stations' thin clients where no npm packages are installed.

const net = require('node:net');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

const REDIS_HOST = process.env.REDIS_HOST || '127.0.0.1';
const REDIS_PORT = Number(process.env.REDIS_PORT || 6379);

const COMMAND_TIMEOUT_MS = 2_000;
const PRINT_TIMEOUT_MS = 10_000;
const LOCK_TTL_MS = 60_000;
const WAIT_FOR_PRINTER_MS = 20_000;

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

function encode(args) {
  const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
  return `*${args.length}\r\n${parts.join('')}`;
}

/** Parses one reply (simple string, error, integer or bulk); undefined while incomplete. */
function decode(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return undefined;
  const line = buf.toString('utf8', 1, eol);
  switch (buf[0]) {
    case 0x2b: // +
      return { value: line };
    case 0x2d: // -
      return { error: new Error(line) };
    case 0x3a: // :
      return { value: Number(line) };
    case 0x24: { // $
      const length = Number(line);
      if (length < 0) return { value: null };
      const end = eol + 2 + length;
      return buf.length < end + 2 ? undefined : { value: buf.toString('utf8', eol + 2, end) };
    }
    default:
      return { error: new Error(`unexpected reply ${line}`) };
  }
}

/** One command over its own connection; the stations print a label every few seconds at most. */
function command(...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(REDIS_PORT, REDIS_HOST);
    let received = Buffer.alloc(0);
    const timer = setTimeout(() => socket.destroy(new Error(`redis: ${args[0]} timed out`)), COMMAND_TIMEOUT_MS);

    socket.on('connect', () => socket.write(encode(args)));
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      const reply = decode(received);
      if (!reply) return;
      socket.end();
      if (reply.error) reject(reply.error);
      else resolve(reply.value);
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(timer);
      reject(new Error('redis: connection closed'));
    });
  });
}

/** Resolves once the printer has taken the whole label, never takes longer than PRINT_TIMEOUT_MS. */
function sendToPrinter({ host, port = 9100 }, zpl) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, host);
    const timer = setTimeout(() => socket.destroy(new Error(`printer ${host} timed out`)), PRINT_TIMEOUT_MS);
    socket.on('connect', () => socket.end(zpl));
    socket.on('error', reject);
    socket.on('close', (hadError) => {
      clearTimeout(timer);
      if (!hadError) resolve();
    });
    socket.resume();
  });
}

async function lockPrinter(printerId) {
  const key = `printer:${printerId}:lock`;
  const token = randomUUID();
  const until = Date.now() + WAIT_FOR_PRINTER_MS;
  for (;;) {
    const reply = await command('SET', key, token, 'NX', 'PX', LOCK_TTL_MS);
    if (reply === 'OK') return { key, token };
    if (Date.now() > until) throw new Error(`printer ${printerId} is busy`);
    await sleep(150 + Math.random() * 150);
  }
}

async function unlockPrinter({ key, token }) {
  try {
    await command('EVAL', UNLOCK, 1, key, token);
  } catch (err) {
    console.warn(`label printer: ${key} not released, lapses by itself:`, err.message);
  }
}

async function printLabel(printer, zpl, send = sendToPrinter) {
  const lock = await lockPrinter(printer.id);
  try {
    await send(printer, zpl);
  } finally {
    await unlockPrinter(lock);
  }
}

module.exports = { printLabel, lockPrinter, unlockPrinter };
