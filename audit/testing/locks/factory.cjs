const crypto = require('node:crypto');

function createMutex(client, { prefix = 'mutex:', ttl = 5 } = {}) {
  return async function lock(name) {
    const id = crypto.randomUUID();
    for (let i = 0; i < 20; i++) {
      if (await client.set(prefix + name, id, { NX: true, EX: ttl })) {
        return async () => {
          const current = await client.get(prefix + name);
          if (current === id) await client.del(prefix + name);
        };
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error('timeout');
  };
}
module.exports = { createMutex };
