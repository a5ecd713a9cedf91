'use strict';
// Redis lock without any dependency, for our build images.
const net = require('node:net');
const { randomBytes } = require('node:crypto');
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');

const run = promisify(execFile);

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const a of args) out += `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`;
  return out;
}

/** Parses one reply; undefined if the buffer does not hold all of it yet. */
function decode(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol === -1) return undefined;
  const head = buf.toString('utf8', 1, eol);
  switch (buf[0]) {
    case 0x2b: return { value: head };
    case 0x2d: return { error: new Error(head) };
    case 0x3a: return { value: Number(head) };
    case 0x24: {
      const len = Number(head);
      if (len === -1) return { value: null };
      if (buf.length < eol + 2 + len + 2) return undefined;
      return { value: buf.toString('utf8', eol + 2, eol + 2 + len) };
    }
    default: return { error: new Error(`unexpected reply type ${buf[0]}`) };
  }
}

/** One command, one connection. Slow but there is no reply that could be mixed up. */
function command(args, { host, port, password, timeoutMs = 1500 }) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port });
    let buf = Buffer.alloc(0);
    let authed = !password;
    const fail = (err) => { clearTimeout(timer); socket.destroy(); reject(err); };
    const timer = setTimeout(() => fail(new Error(`${args[0]}: timeout`)), timeoutMs);

    socket.on('error', fail);
    socket.on('close', () => fail(new Error('connection closed')));
    socket.on('connect', () => socket.write(encode(authed ? args : ['AUTH', password])));
    socket.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      const reply = decode(buf);
      if (!reply) return;
      if (reply.error) return fail(reply.error);
      if (!authed) {
        authed = true;
        buf = Buffer.alloc(0);
        socket.write(encode(args));
        return;
      }
      clearTimeout(timer);
      resolve(reply.value);
      socket.destroy();
    });
  });
}

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

async function acquire(key, ttlMs, server) {
  const token = randomBytes(20).toString('hex');
  const sentAt = Date.now();
  const release = () => command(['EVAL', UNLOCK, 1, key, token], server);
  let reply;
  try {
    reply = await command(['SET', key, token, 'NX', 'PX', ttlMs], server);
  } catch (err) {
    await release().catch(() => {});
    throw err;
  }
  if (reply !== 'OK') return null;
  return { left: () => sentAt + ttlMs - Date.now(), release };
}

/**
 * Mirrors the artifact directory. The lock saves bandwidth: two mirrors at the
 * same time would be harmless (rsync writes to a temporary name and renames).
 * timeout(1) ends rsync before the lock does, even if this process is stopped.
 */
async function mirror(from, to, server) {
  const lock = await acquire(`mirror:${to}`, 120_000, server);
  if (!lock) return 'busy';
  try {
    const seconds = Math.floor(lock.left() / 1000) - 5;
    if (seconds < 10) return 'busy';
    await run('timeout', ['-s', 'KILL', String(seconds), 'rsync', '-a', '--delete', from, to]);
    return 'done';
  } finally {
    await lock.release().catch((err) => console.error('unlock:', err.message));
  }
}

module.exports = { acquire, mirror, command };

if (require.main === module) {
  const [from, to] = process.argv.slice(2);
  const server = {
    host: process.env.REDIS_HOST || '127.0.0.1',
    port: Number(process.env.REDIS_PORT || 6379),
    password: process.env.REDIS_PASSWORD,
  };
  mirror(from, to, server).then(console.log, (err) => { console.error(err); process.exitCode = 1; });
}
