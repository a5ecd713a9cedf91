'use strict';
// Redis lock without any dependency. One TCP connection per command, because a lock is taken
// maybe once a minute here and we did not want a client in this image.
//
//   const { withLock } = require('./tiny-redis-lock.cjs');
//   await withLock('backup', { seconds: 120 }, async (signal) => {
//     await fetch(url, { method: 'POST', signal });
//   });
const net = require('net');
const crypto = require('crypto');

const HOST = process.env.REDIS_HOST || '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT || 6379);
const PASSWORD = process.env.REDIS_PASSWORD;

const encode = (args) =>
  `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');

// first complete reply in buf as { value, end }, or null if there is more to come
function decode(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const head = buf.toString('utf8', 1, eol);
  switch (String.fromCharCode(buf[0])) {
    case '+': return { value: head, end: eol + 2 };
    case '-': return { value: new Error(head), end: eol + 2 };
    case ':': return { value: Number(head), end: eol + 2 };
    case '$': {
      const len = Number(head);
      if (len < 0) return { value: null, end: eol + 2 };
      const end = eol + 2 + len + 2;
      return buf.length < end ? null : { value: buf.toString('utf8', eol + 2, end - 2), end };
    }
    default: return { value: new Error(`unexpected reply ${head}`), end: buf.length };
  }
}

function command(args, timeoutMs = 3000) {
  const commands = PASSWORD ? [['AUTH', PASSWORD], args] : [args];
  return new Promise((resolve, reject) => {
    const socket = net.connect(PORT, HOST);
    let buf = Buffer.alloc(0);
    let left = commands.length;
    const finish = (settle, value) => {
      clearTimeout(timer);
      socket.destroy();
      settle(value);
    };
    const timer = setTimeout(() => finish(reject, new Error(`redis: no answer to ${args[0]}`)), timeoutMs);
    socket.on('error', (err) => finish(reject, err));
    socket.on('close', () => finish(reject, new Error('redis: connection closed')));
    socket.on('connect', () => socket.write(commands.map(encode).join('')));
    socket.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      let reply;
      while (left > 0 && (reply = decode(buf))) {
        buf = buf.subarray(reply.end);
        if (reply.value instanceof Error) return finish(reject, reply.value);
        if (--left === 0) finish(resolve, reply.value);
      }
    });
  });
}

const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

class LockBusy extends Error {}
class LockExpired extends Error {}

/**
 * The lock is never prolonged. fn has `seconds` to do its work; shortly before the key
 * expires the signal it was given is aborted and fn has to give up.
 */
async function withLock(name, { seconds = 60, waitSeconds = 0 } = {}, fn) {
  const key = `lock:${name}`;
  const token = crypto.randomBytes(16).toString('hex');
  const ttl = seconds * 1000;
  const giveUp = Date.now() + waitSeconds * 1000;

  let deadline;
  for (;;) {
    // counted from before we send, the key can't expire sooner than that
    deadline = performance.now() + ttl * 0.9;
    if ((await command(['SET', key, token, 'NX', 'PX', ttl])) === 'OK') break;
    if (Date.now() >= giveUp) throw new LockBusy(`${name} is locked`);
    await new Promise((r) => setTimeout(r, 500 + Math.random() * 500));
  }

  const expired = new AbortController();
  const expire = () => expired.abort(new LockExpired(`${name}: out of time after ${seconds} s`));
  const timer = setTimeout(expire, Math.max(0, deadline - performance.now()));
  try {
    if (performance.now() >= deadline) expire();
    expired.signal.throwIfAborted();
    const result = await fn(expired.signal);
    expired.signal.throwIfAborted();
    return result;
  } finally {
    clearTimeout(timer);
    await command(['EVAL', RELEASE, 1, key, token]).catch((err) => {
      console.warn(`lock ${name} not released, expires by itself: ${err.message}`);
    });
  }
}

module.exports = { withLock, LockBusy, LockExpired };
