#!/usr/bin/env node
// valve-controller.js <field> <seconds>: opens an irrigation valve; one run per field, whoever starts it.
import net from 'node:net';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const LEASE_MS = 120_000;
const MAX_OPEN_S = 30;
const RELEASE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

class ValveStuck extends Error {}

class Resp {
  #sock;
  #buf = Buffer.alloc(0);
  #waiting = [];
  #dead = null;

  static open(host, port) {
    return new Promise((resolve, reject) => {
      const sock = net.createConnection({ host, port });
      const timer = setTimeout(() => sock.destroy(new Error('redis connect timeout')), 3000);
      sock.once('connect', () => { clearTimeout(timer); resolve(new Resp(sock)); });
      sock.once('error', (e) => { clearTimeout(timer); reject(e); });
    });
  }

  constructor(sock) {
    this.#sock = sock;
    sock.on('data', (d) => this.#onData(d));
    sock.on('error', (e) => this.#fail(e)).on('close', () => this.#fail(new Error('redis connection closed')));
  }

  #fail(err) {
    this.#dead ??= err;
    for (const w of this.#waiting.splice(0)) { clearTimeout(w.timer); w.reject(err); }
  }

  #onData(chunk) {
    this.#buf = Buffer.concat([this.#buf, chunk]);
    for (;;) {
      const eol = this.#buf.indexOf('\r\n');
      if (eol < 0) return;
      const kind = String.fromCharCode(this.#buf[0]);
      const head = this.#buf.toString('utf8', 1, eol);
      let end = eol + 2;
      let value;
      if (kind === '+') value = head;
      else if (kind === ':') value = Number(head);
      else if (kind === '-') value = new Error(head);
      else if (kind === '$') {
        const len = Number(head);
        if (len < 0) value = null; else {
          if (this.#buf.length < end + len + 2) return;
          value = this.#buf.toString('utf8', end, end + len);
          end += len + 2;
        }
      } else return void this.#sock.destroy(new Error(`unexpected reply ${kind}`));
      this.#buf = this.#buf.subarray(end);
      const w = this.#waiting.shift();
      if (!w) continue;
      clearTimeout(w.timer);
      if (value instanceof Error) w.reject(value); else w.resolve(value);
    }
  }

  cmd(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    const parts = args.map(String);
    const wire = `*${parts.length}\r\n` + parts.map((p) => `$${Buffer.byteLength(p)}\r\n${p}\r\n`).join('');
    return new Promise((resolve, reject) => {
      // Replies carry no id, so a late one may not be matched with the next command: drop the connection.
      const timer = setTimeout(() => this.#sock.destroy(new Error('redis reply timeout')), 4000);
      this.#waiting.push({ resolve, reject, timer });
      this.#sock.write(wire);
    });
  }

  end() { this.#sock.end(); }
}

const valve = async (field, action, query = '') => {
  const res = await fetch(`${process.env.VALVE_GATEWAY}/fields/${encodeURIComponent(field)}/${action}${query}`, {
    method: 'POST', signal: AbortSignal.timeout(5000),
  });
  if (!res.ok) throw new Error(`${action} ${field}: HTTP ${res.status}`);
};

async function closeValve(field) {
  for (let tries = 1; ; tries++) {
    try { return await valve(field, 'close'); } catch (e) {
      if (tries === 3) throw new ValveStuck(`field ${field}`, { cause: e });
      await sleep(500);
    }
  }
}

async function irrigate(redis, field, seconds) {
  try {
    // The gateway shuts the valve by itself after maxSeconds.
    await valve(field, 'open', `?maxSeconds=${MAX_OPEN_S}`);
    await sleep(seconds * 1000);
  } finally {
    await closeValve(field);
  }
  return redis.cmd('INCRBY', `irrigation:${field}:seconds`, seconds);
}

async function main([field, secondsArg]) {
  const seconds = Number(secondsArg);
  if (!field || !Number.isInteger(seconds) || seconds < 1 || seconds > MAX_OPEN_S) {
    console.error(`usage: valve-controller.js <field> <1..${MAX_OPEN_S}>`);
    return 64;
  }
  const redis = await Resp.open(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379));
  const key = `irrigation:${field}:lock`;
  const token = randomBytes(16).toString('hex');
  try {
    if ((await redis.cmd('SET', key, token, 'NX', 'PX', LEASE_MS)) !== 'OK') {
      console.error(`field ${field} is being irrigated`);
      return 75;
    }
    let mayBeOpen = false;
    try {
      const total = await irrigate(redis, field, seconds);
      console.log(`field ${field}: ${seconds} s, ${total} s in total`);
      return 0;
    } catch (e) {
      mayBeOpen = e instanceof ValveStuck;
      throw e;
    } finally {
      // A valve that did not confirm closing keeps its lock; the gateway shuts it long before the lease is over.
      if (!mayBeOpen) await redis.cmd('EVAL', RELEASE, 1, key, token).catch((e) => console.error(`lock left to expire: ${e.message}`));
    }
  } finally {
    redis.end();
  }
}

process.exitCode = await main(process.argv.slice(2)).catch((e) => { console.error(e); return 1; });
