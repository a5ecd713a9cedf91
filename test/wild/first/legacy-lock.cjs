'use strict';

const Redis = require('ioredis');

const client = new Redis(6379, '127.0.0.1', { commandTimeout: 1000, maxRetriesPerRequest: 1 });
client.on('error', () => {});

/**
 * Works with any Redis since 1.0: the value is the time at which the lock ends, so that a crashed owner does not keep it.
 *
 * @param {string} name
 * @param {number} timeout in ms
 * @returns {Promise<number|false>} the end of the lock, to be handed to unlock
 */
async function lock(name, timeout) {
  const key = 'lock.' + name;
  const end = Date.now() + timeout + 1;
  if ((await client.setnx(key, String(end))) === 1) return end;

  const current = await client.get(key);
  if (current && Number(current) < Date.now()) {
    // it has expired; whoever gets the old value back is the new owner
    const previous = await client.getset(key, String(end));
    if (previous === current) return end;
  }
  return false;
}

async function unlock(name, end) {
  if (Date.now() < end) await client.del('lock.' + name);
}

module.exports = { lock, unlock };
