'use strict';

const net = require('node:net');
const { Redis } = require('ioredis');

const redis = new Redis(process.env.REDIS_URL);
redis.on('error', (err) => console.error('redis', err.message));

const PRINT_TIMEOUT = 10_000;

// The printer takes one connection; whoever has its ticket may print.
const PREPARE = `
if redis.call('SET', KEYS[1], '1', 'NX') then
  redis.call('RPUSH', KEYS[2], 'ticket')
end
return redis.call('LLEN', KEYS[2])
`;

function keysOf(printer) {
  return { prepared: `{printer:${printer.id}}:prepared`, tickets: `{printer:${printer.id}}:tickets` };
}

function sendToPrinter(printer, zpl) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: printer.host, port: printer.port ?? 9100 });
    const timer = setTimeout(() => socket.destroy(new Error(`printer ${printer.id} timed out`)), PRINT_TIMEOUT);
    socket.once('connect', () => socket.end(zpl));
    socket.once('error', (err) => {
      clearTimeout(timer);
      reject(err);
    });
    socket.once('close', (hadError) => {
      clearTimeout(timer);
      if (!hadError) resolve();
    });
  });
}

async function printLabel(printer, label, waitSeconds = 30) {
  const { prepared, tickets } = keysOf(printer);
  await redis.eval(PREPARE, 2, prepared, tickets);

  // BLPOP blocks the connection, so it needs one of its own.
  const waiting = redis.duplicate();
  waiting.on('error', (err) => console.error('redis', err.message));
  let popped;
  try {
    popped = await waiting.blpop(tickets, waitSeconds);
  } finally {
    waiting.disconnect();
  }
  if (popped === null) throw new Error(`printer ${printer.id} is busy`);

  try {
    await sendToPrinter(printer, label.zpl);
  } finally {
    await redis.rpush(tickets, 'ticket');
  }
}

async function onLabelJob(printers, job) {
  const printer = printers.get(job.printerId);
  if (!printer) return { ok: false, reason: 'unknown printer' };
  try {
    await printLabel(printer, job);
    return { ok: true };
  } catch (err) {
    console.error('label %s', job.id, err);
    return { ok: false, reason: err.message };
  }
}

module.exports = { onLabelJob, printLabel };
