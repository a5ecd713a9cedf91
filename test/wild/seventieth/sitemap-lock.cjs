'use strict';
// No dependencies: a lock over a bare socket, to keep several boxes from building
// the same sitemap on a shared disk at once.
const net = require('net');
const fs = require('fs/promises');
const crypto = require('crypto');

const HOST = process.env.REDIS_HOST || '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT || 6379);

const DROP = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

function encode(args) {
  const parts = [`*${args.length}\r\n`];
  for (const a of args) {
    const s = String(a);
    parts.push(`$${Buffer.byteLength(s)}\r\n${s}\r\n`);
  }
  return parts.join('');
}

// one command, one connection: nothing to resync when a reply goes missing
function command(args, timeout = 2000) {
  return new Promise((resolve, reject) => {
    const sock = net.connect(PORT, HOST);
    let buf = Buffer.alloc(0);
    const finish = (fn, v) => {
      clearTimeout(timer);
      sock.destroy();
      fn(v);
    };
    const timer = setTimeout(() => finish(reject, new Error(`${args[0]}: timed out`)), timeout);
    sock.on('error', (e) => finish(reject, e));
    sock.on('close', () => finish(reject, new Error(`${args[0]}: connection closed`)));
    sock.on('connect', () => sock.write(encode(args)));
    sock.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      const eol = buf.indexOf('\r\n');
      if (eol < 0) return;
      const line = buf.toString('utf8', 1, eol);
      switch (String.fromCharCode(buf[0])) {
        case '+':
          return finish(resolve, line);
        case ':':
          return finish(resolve, Number(line));
        case '-':
          return finish(reject, new Error(line));
        case '$': {
          const len = Number(line);
          if (len < 0) return finish(resolve, null);
          if (buf.length < eol + 2 + len + 2) return;
          return finish(resolve, buf.toString('utf8', eol + 2, eol + 2 + len));
        }
        default:
          return finish(reject, new Error('unexpected reply'));
      }
    });
  });
}

async function tryLock(key, ttl, fn) {
  const token = crypto.randomBytes(16).toString('hex');
  const started = process.hrtime.bigint();
  const left = () => ttl * 0.9 - Number(process.hrtime.bigint() - started) / 1e6;
  try {
    const reply = await command(['SET', key, token, 'NX', 'PX', ttl]);
    if (reply !== 'OK') return false;
    await fn(left);
    return true;
  } finally {
    // also after a SET without an answer, which may have gone through
    await command(['EVAL', DROP, 1, key, token]).catch((e) => console.warn('release:', e.message));
  }
}

/**
 * `render()` gives the whole sitemap as a string and has no effects. The file is replaced by
 * a rename, so readers see the old one or the new one; a run that takes too long throws its
 * own output away and leaves the file to the one that came after.
 */
async function buildSitemap(target, render, ttl = 60000) {
  return tryLock(`sitemap:${target}`, ttl, async (left) => {
    const tmp = `${target}.${process.pid}.${crypto.randomBytes(4).toString('hex')}`;
    try {
      await fs.writeFile(tmp, await render());
      if (left() < ttl * 0.1) throw new Error('sitemap took too long, dropped');
      await fs.rename(tmp, target);
    } finally {
      await fs.rm(tmp, { force: true });
    }
  });
}

module.exports = { buildSitemap, tryLock, command };
