// Runs on the gateways (OpenWrt, 64 MB of RAM), hence no npm packages at all.
import net from 'node:net';
import fs from 'node:fs/promises';
import { randomUUID } from 'node:crypto';

const TTL_MS = 180_000;
const BUDGET_MS = 120_000;
const CMD_MS = 5_000;

// Small RESP client. Only for commands with one-line replies: +OK  :1  $-1  -ERR
class MiniRedis {
  constructor(host, port) {
    this.waiting = [];
    this.buf = '';
    this.dead = null;
    this.sock = net.connect({ host, port });
    this.sock.setNoDelay(true);
    this.sock.on('data', (chunk) => {
      this.buf += chunk.toString('latin1');
      let i;
      while ((i = this.buf.indexOf('\r\n')) >= 0) {
        const line = this.buf.slice(0, i);
        this.buf = this.buf.slice(i + 2);
        const w = this.waiting.shift();
        if (!w) continue;
        clearTimeout(w.timer);
        if (line[0] === '-') w.reject(new Error(line.slice(1)));
        else w.resolve(line);
      }
    });
    this.sock.on('error', (err) => this.#fail(err));
    this.sock.on('close', () => this.#fail(new Error('redis connection closed')));
  }

  #fail(err) {
    this.dead ??= err;
    for (const w of this.waiting.splice(0)) {
      clearTimeout(w.timer);
      w.reject(err);
    }
  }

  cmd(...args) {
    if (this.dead) return Promise.reject(this.dead);
    const wire = `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
    return new Promise((resolve, reject) => {
      // replies come in order, so after a timeout this connection is of no use any more
      const timer = setTimeout(() => this.sock.destroy(new Error('redis timeout')), CMD_MS);
      this.waiting.push({ resolve, reject, timer });
      this.sock.write(wire);
    });
  }

  end() {
    this.sock.end();
  }
}

const UNLOCK = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

async function pushAll(lamps, version, image) {
  const signal = AbortSignal.timeout(BUDGET_MS);
  for (const ip of lamps) {
    signal.throwIfAborted();
    const have = await (await fetch(`http://${ip}/version`, { signal })).text();
    if (have.trim() === version) continue;
    const res = await fetch(`http://${ip}/firmware?v=${version}`, { method: 'PUT', body: image, signal });
    console.log(ip, res.status);
  }
}

const [, , version, file, listFile] = process.argv;
const image = await fs.readFile(file);
const lamps = (await fs.readFile(listFile, 'utf8')).split('\n').filter(Boolean);

const redis = new MiniRedis(process.env.REDIS_HOST ?? '10.0.0.1', 6379);
const token = randomUUID();
const reply = await redis.cmd('SET', 'lamps:firmware', token, 'NX', 'PX', TTL_MS);
if (reply !== '+OK') {
  console.log('another gateway is flashing, try later');
  redis.end();
  process.exit(75);
}
try {
  await pushAll(lamps, version, image);
} finally {
  await redis.cmd('EVAL', UNLOCK, 1, 'lamps:firmware', token).catch((e) => console.warn('unlock:', e.message));
  redis.end();
}
