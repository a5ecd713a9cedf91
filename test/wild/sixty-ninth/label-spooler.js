'use strict';

/**
 * Spooler of the label printers in the warehouses. Runs on small boxes next to the printers,
 * where we do not install packages, so Redis is spoken to by hand.
 */
const net = require('net');
const { randomUUID } = require('crypto');
const { performance } = require('perf_hooks');

const LEASE_MS = 30000;
const LABEL_TIMEOUT_MS = 5000;
const REPLY_TIMEOUT_MS = 3000;

class Resp {
  constructor(host, port) {
    this.buf = Buffer.alloc(0);
    this.waiting = [];
    this.dead = null;
    this.sock = net.connect({ host, port });
    this.sock.setNoDelay(true);
    this.sock.on('data', (d) => this._data(d));
    this.sock.on('error', (e) => this._fail(e));
    this.sock.on('close', () => this._fail(new Error('redis connection closed')));
  }

  call(...args) {
    return new Promise((resolve, reject) => {
      if (this.dead) return reject(this.dead);
      let out = `*${args.length}\r\n`;
      for (const a of args) out += `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`;
      const timer = setTimeout(() => this._fail(new Error(`no reply to ${args[0]}`)), REPLY_TIMEOUT_MS);
      this.waiting.push({ resolve, reject, timer });
      this.sock.write(out);
    });
  }

  _data(d) {
    this.buf = Buffer.concat([this.buf, d]);
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const kind = String.fromCharCode(this.buf[0]);
      const head = this.buf.toString('utf8', 1, eol);
      let end = eol + 2;
      let value;
      let error;
      if (kind === '+') value = head;
      else if (kind === ':') value = Number(head);
      else if (kind === '-') error = new Error(head);
      else if (kind === '$') {
        const len = Number(head);
        if (len < 0) value = null;
        else {
          if (this.buf.length < end + len + 2) return;
          value = this.buf.toString('utf8', end, end + len);
          end += len + 2;
        }
      } else return this._fail(new Error(`unexpected reply type ${kind}`));
      this.buf = this.buf.subarray(end);
      const w = this.waiting.shift();
      if (!w) return this._fail(new Error('reply without a request'));
      clearTimeout(w.timer);
      if (error) w.reject(error);
      else w.resolve(value);
    }
  }

  _fail(err) {
    if (this.dead) return;
    this.dead = err;
    for (const w of this.waiting.splice(0)) {
      clearTimeout(w.timer);
      w.reject(err);
    }
    this.sock.destroy();
  }

  close() {
    this._fail(new Error('closed'));
  }
}

const EXTEND = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) end return 0";
const RELEASE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

function sendLabel(printer, zpl) {
  return new Promise((resolve, reject) => {
    const s = net.connect({ host: printer.host, port: printer.port || 9100 });
    const timer = setTimeout(() => s.destroy(new Error('printer timed out')), LABEL_TIMEOUT_MS);
    s.once('error', reject);
    s.once('close', (hadError) => {
      clearTimeout(timer);
      if (!hadError) resolve();
    });
    s.once('connect', () => s.end(zpl));
    s.resume();
  });
}

/**
 * Prints the labels of a shipment in one go, nothing of another shipment in between.
 * Returns how many were printed, or null when the printer is in use. On an error the caller
 * gets `err.printed` and asks the operator before printing the rest.
 */
async function printShipment(redisAddr, printer, labels) {
  const redis = new Resp(redisAddr.host, redisAddr.port);
  const key = `printer:${printer.id}:lock`;
  const token = randomUUID();
  let printed = 0;
  try {
    let asked = performance.now();
    if ((await redis.call('SET', key, token, 'NX', 'PX', LEASE_MS)) !== 'OK') return null;
    let until = asked + LEASE_MS;

    for (const zpl of labels) {
      // a full label has to fit into what is left, with room to spare
      if (until - performance.now() < LEASE_MS / 2) {
        asked = performance.now();
        if ((await redis.call('EVAL', EXTEND, 1, key, token, LEASE_MS)) !== 1) throw new Error('printer lock lost');
        until = asked + LEASE_MS;
      }
      if (until - performance.now() < LABEL_TIMEOUT_MS * 2) throw new Error('printer lock about to run out');
      await sendLabel(printer, zpl);
      printed++;
    }
    return printed;
  } catch (err) {
    err.printed = printed;
    throw err;
  } finally {
    await redis.call('EVAL', RELEASE, 1, key, token).catch((e) => console.warn(`${key} left to expire: ${e.message}`));
    redis.close();
  }
}

module.exports = { printShipment, Resp };
