'use strict';

const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const TTL_MS = 8000;
const POLL_MS = 1000;
const REPLY_MS = 2000;

const UNLOCK = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[1], 'free')
return 1`;

class GridBusyError extends Error {}
class GridConflictError extends Error {}

/** Rejects when no reply came in time. */
function inTime(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('redis did not answer')), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A bell that one waiter listens to: `ring()` ends the current `wait()`. */
function createBell() {
  let rung = false;
  let wake = () => {};
  return {
    ring() { rung = true; wake(); },
    async wait(ms) {
      if (!rung) {
        await new Promise((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => { clearTimeout(timer); resolve(); };
        });
      }
      rung = false;
    },
  };
}

/**
 * Lets the setters of a crossword edit one grid in turn.
 * Waiters are woken over pub/sub and look for themselves every second.
 */
class GridDesk {
  /**
   * @param {string} redisUrl
   * @param {import('mongodb').Collection} grids
   */
  constructor(redisUrl, grids) {
    this.grids = grids;
    this.redis = createClient({ url: redisUrl, disableOfflineQueue: true });
    this.bells = this.redis.duplicate({ disableOfflineQueue: false });
    for (const c of [this.redis, this.bells]) c.on('error', (err) => console.error('redis', err.message));
  }

  async open() {
    await Promise.all([this.redis.connect(), this.bells.connect()]);
  }

  /**
   * Loads the grid, hands it to `change`, which returns the new cells, and stores them.
   * @param {string} gridId
   * @param {(grid: object) => object} change a pure, synchronous function
   * @param {number} [waitMs]
   */
  async edit(gridId, change, waitMs = 10_000) {
    const key = `grid:${gridId}:desk`;
    const token = randomUUID();
    await this.#lock(key, token, waitMs);
    try {
      const grid = await this.grids.findOne({ _id: gridId }, { maxTimeMS: 3000 });
      if (!grid) throw new Error(`no grid ${gridId}`);
      const stored = await this.grids.updateOne(
        { _id: gridId, rev: grid.rev },
        { $set: { cells: change(grid) }, $inc: { rev: 1 } },
        { maxTimeMS: 3000 },
      );
      if (stored.matchedCount !== 1) throw new GridConflictError(`grid ${gridId} has changed`);
    } finally {
      await this.#unlock(key, token);
    }
  }

  async #lock(key, token, waitMs) {
    const giveUp = performance.now() + waitMs;
    const bell = createBell();
    const ring = () => bell.ring();
    const listening = this.bells.subscribe(key, ring);
    listening.catch(() => {});
    try {
      for (;;) {
        const reply = await inTime(this.redis.set(key, token, { NX: true, PX: TTL_MS }), REPLY_MS);
        if (reply === 'OK') return;
        const left = giveUp - performance.now();
        if (left <= 0) throw new GridBusyError(key);
        await bell.wait(Math.min(POLL_MS, left));
      }
    } catch (err) {
      if (!(err instanceof GridBusyError)) await this.#unlock(key, token);
      throw err;
    } finally {
      listening.then(() => this.bells.unsubscribe(key, ring)).catch(() => {});
    }
  }

  async #unlock(key, token) {
    await inTime(this.redis.eval(UNLOCK, { keys: [key], arguments: [token] }), REPLY_MS).catch((err) => {
      console.warn(`desk ${key} left to its ttl: ${err.message}`);
    });
  }
}

module.exports = { GridDesk, GridBusyError, GridConflictError };
