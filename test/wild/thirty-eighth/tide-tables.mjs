import { randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

// Two commands do not need a dependency.
class Wire {
  #sock;
  #buf = Buffer.alloc(0);
  #waiting = [];
  #dead = null;

  constructor(port, host) {
    this.#sock = net.connect({ port, host });
    this.#sock.setNoDelay(true);
    this.#sock.on('data', (chunk) => {
      this.#buf = Buffer.concat([this.#buf, chunk]);
      this.#drain();
    });
    const fail = (err) => {
      this.#dead ??= err;
      for (const w of this.#waiting.splice(0)) w.reject(err);
    };
    this.#sock.on('error', fail);
    this.#sock.on('close', () => fail(new Error('redis hung up')));
  }

  call(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    let out = `*${args.length}\r\n`;
    for (const arg of args.map(String)) out += `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#sock.write(out);
    });
  }

  end() {
    this.#sock.destroy();
  }

  #drain() {
    for (;;) {
      const nl = this.#buf.indexOf('\r\n');
      if (nl < 0) return;
      const type = String.fromCharCode(this.#buf[0]);
      let value = this.#buf.toString('utf8', 1, nl);
      let end = nl + 2;
      if (type === '$') {
        const len = Number(value);
        if (len >= 0 && this.#buf.length < end + len + 2) return;
        value = len < 0 ? null : this.#buf.toString('utf8', end, end + len);
        if (len >= 0) end += len + 2;
      } else if (type === ':') {
        value = Number(value);
      }
      this.#buf = this.#buf.subarray(end);
      const waiter = this.#waiting.shift();
      if (type === '-') waiter?.reject(new Error(value));
      else waiter?.resolve(value);
    }
  }
}

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

export async function withMutex(name, ttlMs, work) {
  const wire = new Wire(Number(process.env.REDIS_PORT ?? 6379), process.env.REDIS_HOST ?? '127.0.0.1');
  const key = `mutex:${name}`;
  const token = randomUUID();
  let left = 0;
  try {
    for (let i = 0; left <= 0; i++) {
      const asked = performance.now();
      if ((await wire.call('SET', key, token, 'NX', 'PX', ttlMs)) === 'OK') {
        left = Math.floor(asked + ttlMs * 0.9 - performance.now());
        if (left <= 0) throw new Error(`${key} came too late`);
        continue;
      }
      if (i === 20) throw new Error(`${key} is taken`);
      await sleep(100 + Math.random() * 200);
    }
    return await work(AbortSignal.timeout(left), token);
  } finally {
    const answer = wire.call('EVAL', UNLOCK, 1, key, token);
    await Promise.race([answer, sleep(2_000, null, { ref: false })]).catch(() => {});
    wire.end();
  }
}

export function publishTides(port, year) {
  return withMutex(`tides:${port}:${year}`, 30_000, async (signal, token) => {
    const res = await fetch(`${process.env.TIDE_URL}/predict?port=${port}&year=${year}`, { signal });
    if (!res.ok) throw new Error(`tide service answered ${res.status}`);
    const rows = (await res.json()).map((t) => `${t.at};${t.kind};${t.metres.toFixed(2)}`);
    const file = `/srv/www/tides/${port}-${year}.csv`;
    const part = `${file}.${token}`;
    try {
      await writeFile(part, `${rows.join('\n')}\n`, { signal });
      signal.throwIfAborted();
      await rename(part, file);
    } finally {
      await rm(part, { force: true });
    }
  });
}
