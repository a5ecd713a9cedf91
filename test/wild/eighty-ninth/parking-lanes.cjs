'use strict';

/**
 * Barrier control of a car park.
 *
 * Entry terminals, exit terminals and the attendant's desk share the lanes; a barrier
 * is moved by one of them at a time. The controllers have no npm, so this file brings
 * a small Redis client along. One connection serves all lanes of a controller.
 */

const net = require('node:net');
const { randomUUID } = require('node:crypto');

const LOCK_MS = 20_000;
const BARRIER_TIMEOUT_MS = 6_000;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

class RedisReplyError extends Error {
  name = 'RedisReplyError';
}

class RedisTimeoutError extends Error {
  name = 'RedisTimeoutError';
}

class LaneBusyError extends Error {
  name = 'LaneBusyError';
}

/** Encodes a command as an array of bulk strings. */
function encode(args) {
  const parts = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`);
  return `*${args.length}\r\n${parts.join('')}`;
}

/** Takes one reply off the front of the buffer; null when it is not complete yet. */
function decode(buffer) {
  const eol = buffer.indexOf('\r\n');
  if (eol < 0) return null;
  const type = String.fromCharCode(buffer[0]);
  const line = buffer.toString('utf8', 1, eol);
  const rest = eol + 2;
  if (type === '+') return { value: line, size: rest };
  if (type === ':') return { value: Number(line), size: rest };
  if (type === '-') return { value: new RedisReplyError(line), size: rest };
  const length = Number(line);
  if (length < 0) return { value: null, size: rest };
  if (buffer.length < rest + length + 2) return null;
  return { value: buffer.toString('utf8', rest, rest + length), size: rest + length + 2 };
}

class MiniRedis {
  constructor({ host, port = 6379 }) {
    this.buffer = Buffer.alloc(0);
    this.waiting = [];
    this.broken = null;
    this.socket = net.connect({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new RedisReplyError('connection closed')));
  }

  /**
   * Sends one command; replies come back in the order of the commands.
   * @param {Array<string | number>} args
   * @param {number} [timeoutMs] how long the caller is ready to wait
   */
  send(args, timeoutMs = 1_500) {
    if (this.broken) return Promise.reject(this.broken);
    return new Promise((resolve, reject) => {
      const waiter = { resolve, reject };
      waiter.timer = setTimeout(() => {
        this.waiting = this.waiting.filter((other) => other !== waiter);
        reject(new RedisTimeoutError(`${args[0]} took longer than ${timeoutMs} ms`));
      }, timeoutMs);
      this.waiting.push(waiter);
      this.socket.write(encode(args));
    });
  }

  onData(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (let reply = decode(this.buffer); reply; reply = decode(this.buffer)) {
      this.buffer = this.buffer.subarray(reply.size);
      const waiter = this.waiting.shift();
      if (!waiter) continue;
      clearTimeout(waiter.timer);
      if (reply.value instanceof RedisReplyError) waiter.reject(reply.value);
      else waiter.resolve(reply.value);
    }
  }

  fail(err) {
    this.broken ??= err;
    this.socket.destroy();
    for (const waiter of this.waiting.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.reject(err);
    }
  }
}

/**
 * Runs `fn` while this controller has the lane.
 * @throws {LaneBusyError} when the barrier is being moved by somebody else
 */
async function withLane(redis, laneId, fn) {
  const key = `carpark:lane:${laneId}:lock`;
  const token = randomUUID();
  const reply = await redis.send(['SET', key, token, 'NX', 'PX', LOCK_MS]);
  if (reply !== 'OK') throw new LaneBusyError(`lane ${laneId} is in use`);
  try {
    return await fn();
  } finally {
    await redis.send(['EVAL', RELEASE, 1, key, token]).catch(() => {}); // else it expires
  }
}

/** Moves the barrier; the motor stops by itself after `limitMs`. */
function moveBarrier(redis, laneId, position) {
  return withLane(redis, laneId, async () => {
    const url = `http://lane-${laneId}.local/barrier/${position}?limitMs=${BARRIER_TIMEOUT_MS}`;
    const res = await fetch(url, { method: 'POST', signal: AbortSignal.timeout(BARRIER_TIMEOUT_MS) });
    if (!res.ok) throw new Error(`barrier ${laneId} answered ${res.status}`);
  });
}

module.exports = { MiniRedis, withLane, moveBarrier, LaneBusyError, RedisTimeoutError };
