'use strict';

const net = require('node:net');
const { randomUUID } = require('node:crypto');

// independent redis servers, two in each of our data centres
const NODES = (process.env.LOCK_NODES || 'dc1-a:6379,dc1-b:6379,dc2-a:6379,dc2-b:6379')
  .split(',')
  .map((s) => s.trim().split(':'))
  .map(([host, port]) => ({ host, port: Number(port) }));

const QUORUM = Math.ceil(NODES.length / 2);
const TTL_MS = 6000;
const NODE_TIMEOUT_MS = 150;
const DRIFT_MS = TTL_MS * 0.01 + 2;

const UNLOCK =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

/** One command over a fresh connection. Only for replies of one line (+OK, $-1, :1). */
function command({ host, port }, args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port });
    let text = '';
    socket.setTimeout(NODE_TIMEOUT_MS, () => socket.destroy(new Error(`${host} timed out`)));
    socket.once('error', reject);
    socket.once('close', () => reject(new Error(`${host} hung up`)));
    socket.on('data', (chunk) => {
      text += chunk;
      const eol = text.indexOf('\r\n');
      if (eol === -1) return;
      const line = text.slice(0, eol);
      if (line[0] === '-') reject(new Error(line.slice(1)));
      else if (line[0] === ':') resolve(Number(line.slice(1)));
      else resolve(line === '$-1' ? null : line.slice(1));
      socket.end();
    });
    socket.write(
      `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join(''),
    );
  });
}

async function unlock(key, token) {
  await Promise.allSettled(NODES.map((n) => command(n, ['EVAL', UNLOCK, '1', key, token])));
}

async function lock(key) {
  const token = randomUUID();
  const started = Date.now();
  const answers = await Promise.allSettled(
    NODES.map((n) => command(n, ['SET', key, token, 'NX', 'PX', String(TTL_MS)])),
  );
  const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
  const left = TTL_MS - (Date.now() - started) - DRIFT_MS;

  if (votes >= QUORUM && left > TTL_MS / 2) return token;

  await unlock(key, token);
  return null;
}

/**
 * A car is at the barrier. Returns the ticket, or null if the garage is full
 * or the other entrance is faster (the driver just presses the button again).
 */
async function enter({ garages, barrier }, garageId, gate) {
  const key = `garage:${garageId}`;
  const token = await lock(key);
  if (!token) return null;

  try {
    const garage = await garages.get(garageId);
    if (garage.free < 1) return null;

    const ticket = { no: garage.nextTicket, garageId, gate };
    await garages.update(garageId, { free: garage.free - 1, nextTicket: garage.nextTicket + 1 });
    await barrier.open(gate, ticket.no);
    return ticket;
  } finally {
    await unlock(key, token);
  }
}

module.exports = { enter };
