const { randomUUID } = require('node:crypto');

const DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** Keeps the keys of its leases by the ids that it gives. */
function createBook(redis) {
  const keys = new Map();

  async function take(name, ttl) {
    const id = randomUUID();
    if ((await redis.set(name, id, 'PX', ttl, 'NX')) !== 'OK') return null;
    keys.set(id, name);
    return id;
  }

  async function drop(id) {
    const key = keys.get(id);
    keys.delete(id);
    return key !== undefined && (await redis.eval(DROP, 1, key, id)) === 1;
  }

  return { take, drop };
}

module.exports = { createBook };
