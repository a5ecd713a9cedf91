#!/usr/bin/env node
'use strict';
// usage: deploy-lock.cjs <environment> <command> [args...]
// No dependencies on purpose, it runs on the bare bastion host.

const net = require('node:net');
const { randomUUID } = require('node:crypto');
const { spawn } = require('node:child_process');
const { performance } = require('node:perf_hooks');

const TTL_MS = 60_000;
const RENEW_EVERY_MS = 10_000;
const STOP_BEFORE_MS = 20_000; // time left in which the command is stopped
const KILL_AFTER_MS = 8_000;

const RENEW = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0";
const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

class MiniRedis {
  constructor(host, port) {
    this.pending = [];
    this.buf = Buffer.alloc(0);
    this.dead = null;
    this.socket = net.connect({ host, port, noDelay: true });
    this.socket.on('data', (chunk) => {
      this.buf = Buffer.concat([this.buf, chunk]);
      this.drain();
    });
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('connection closed')));
  }

  fail(err) {
    this.dead = this.dead || err;
    for (const waiter of this.pending.splice(0)) waiter.reject(err);
  }

  command(...args) {
    if (this.dead) return Promise.reject(this.dead);
    const parts = args.map(String).map((s) => `$${Buffer.byteLength(s)}\r\n${s}\r\n`);
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve, reject });
      this.socket.write(`*${parts.length}\r\n${parts.join('')}`);
    });
  }

  drain() {
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.buf[0]);
      const line = this.buf.toString('utf8', 1, eol);
      let value = type === ':' ? Number(line) : line;
      let next = eol + 2;
      if (type === '$') {
        const length = Number(line);
        if (length >= 0) {
          if (this.buf.length < next + length + 2) return;
          value = this.buf.toString('utf8', next, next + length);
          next += length + 2;
        } else value = null;
      }
      this.buf = this.buf.subarray(next);
      const waiter = this.pending.shift();
      if (type === '-') waiter.reject(new Error(line));
      else waiter.resolve(value);
    }
  }
}

async function main() {
  const [environment, command, ...args] = process.argv.slice(2);
  if (!environment || !command) throw new Error('usage: deploy-lock.cjs <environment> <command> [args...]');
  const redis = new MiniRedis(process.env.REDIS_HOST || '127.0.0.1', Number(process.env.REDIS_PORT || 6379));
  const key = `deploy-lock:${environment}`;
  const token = randomUUID();

  let validUntil = performance.now() + TTL_MS;
  if ((await redis.command('SET', key, token, 'NX', 'PX', TTL_MS)) !== 'OK') {
    console.error(`another deployment to ${environment} is running`);
    process.exit(75);
  }
  if (validUntil - performance.now() < STOP_BEFORE_MS * 2) throw new Error('redis is too slow, try again later');

  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], detached: true });
  const signalGroup = (sig) => { try { process.kill(-child.pid, sig); } catch { /* has ended */ } };
  for (const sig of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(sig, () => signalGroup(sig));

  let lost = false;
  const stop = (why) => {
    if (lost) return;
    lost = true;
    console.error(`stopping ${command}: ${why}`);
    signalGroup('SIGTERM');
    setTimeout(() => signalGroup('SIGKILL'), KILL_AFTER_MS).unref();
  };
  const renewTimer = setInterval(() => {
    const until = performance.now() + TTL_MS;
    redis.command('EVAL', RENEW, 1, key, token, TTL_MS).then(
      (reply) => { if (reply === 1) validUntil = until; else stop('lock was taken away'); },
      (err) => console.error('renew:', err.message),
    );
  }, RENEW_EVERY_MS);
  const watchdog = setInterval(() => {
    if (validUntil - performance.now() < STOP_BEFORE_MS) stop('lock could not be renewed');
  }, 500);

  const code = await new Promise((resolve) => {
    child.on('error', (err) => { console.error(err.message); resolve(127); });
    child.on('exit', (exitCode) => resolve(exitCode ?? 1));
  });
  clearInterval(renewTimer);
  clearInterval(watchdog);
  signalGroup('SIGKILL'); // nothing of the group may outlive the lock
  const timeout = new Promise((resolve) => setTimeout(resolve, 3_000));
  await Promise.race([redis.command('EVAL', RELEASE, 1, key, token).catch(() => {}), timeout]);
  process.exit(lost ? 76 : code);
}

main().catch((err) => { console.error(err.message); process.exit(1); });
