'use strict';
const net = require('net');
const { randomBytes } = require('crypto');

const HOST = process.env.REDIS_HOST || '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT || 6379);
const TIMEOUT = 800;

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

function encode(args) {
  return `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
}

/** One command over a connection of its own. No dependency, and no state to go stale. */
function command(...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: HOST, port: PORT });
    let buffer = '';
    const timer = setTimeout(() => finish(new Error('redis timed out')), TIMEOUT);
    function finish(err, value) {
      clearTimeout(timer);
      socket.destroy();
      if (err) reject(err);
      else resolve(value);
    }
    socket.setEncoding('utf8');
    socket.on('connect', () => socket.write(encode(args)));
    socket.on('error', finish);
    socket.on('close', () => finish(new Error('redis closed the connection')));
    socket.on('data', (chunk) => {
      buffer += chunk;
      const end = buffer.indexOf('\r\n');
      if (end < 0) return;
      const line = buffer.slice(1, end);
      switch (buffer[0]) {
        case '+':
          return finish(null, line);
        case ':':
          return finish(null, Number(line));
        case '-':
          return finish(new Error(line));
        case '$': {
          if (line === '-1') return finish(null, null);
          const length = Number(line);
          if (buffer.length >= end + 2 + length + 2) finish(null, buffer.slice(end + 2, end + 2 + length));
          return;
        }
        default:
          return finish(new Error(`unexpected reply ${buffer[0]}`));
      }
    });
  });
}

async function acquire(resource, ttl) {
  const value = randomBytes(20).toString('hex');
  const begun = performance.now();
  let reply;
  try {
    reply = await command('SET', resource, value, 'NX', 'PX', ttl);
  } catch (err) {
    // no answer is no proof that nothing was set
    await command('EVAL', UNLOCK, 1, resource, value).catch(() => {});
    throw err;
  }
  if (reply !== 'OK') return null;
  const lock = { resource, value, remaining: () => begun + ttl - ttl / 50 - 5 - performance.now() };
  if (lock.remaining() > 0) return lock;
  await release(lock);
  return null;
}

async function release(lock) {
  return (await command('EVAL', UNLOCK, 1, lock.resource, lock.value)) === 1;
}

module.exports = { acquire, release };
