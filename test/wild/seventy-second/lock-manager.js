'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');

const client = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');

const redlock = new Redlock([client], {
  retryCount: -1, // callers bring their own timeout
  retryDelay: 200,
  retryJitter: 100,
});

redlock.on('clientError', (err) => console.error('[redlock]', err.message));

const TTL = 8000;

class AcquireTimeout extends Error {
  constructor(resource, ms) {
    super(`no lock on ${resource} within ${ms} ms`);
    this.code = 'ELOCKTIMEOUT';
  }
}

class ManagedLock {
  constructor(lock) {
    this.lock = lock;
    this.lost = false;
    this.timer = setInterval(() => this.prolong(), TTL / 4);
  }

  async prolong() {
    try {
      this.lock = await this.lock.extend(TTL);
    } catch (err) {
      this.lost = true;
      clearInterval(this.timer);
      console.error('[lock] lost', this.lock.resource, err.message);
    }
  }

  assert() {
    if (this.lost || Date.now() > this.lock.expiration) {
      throw new Error(`lock on ${this.lock.resource} is lost`);
    }
  }

  async release() {
    clearInterval(this.timer);
    if (this.lost) return;
    try {
      await this.lock.unlock();
    } catch (err) {
      console.error('[lock] unlock', err.message);
    }
  }
}

/**
 * Waits for the lock at most `timeout` ms. It is renewed until release() is called.
 */
function acquire(resource, timeout = 5000) {
  let timer;

  const locked = redlock
    .lock(`locks:${resource}`, TTL)
    .then((lock) => new ManagedLock(lock));

  const expired = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new AcquireTimeout(resource, timeout)), timeout);
  });

  return Promise.race([locked, expired]).finally(() => clearTimeout(timer));
}

async function withLock(resource, timeout, fn) {
  const lock = await acquire(resource, timeout);
  try {
    return await fn(lock);
  } finally {
    await lock.release();
  }
}

module.exports = { acquire, withLock, AcquireTimeout };
