'use strict';

const crypto = require('node:crypto');
const Redis = require('iovalkey');

const SCRIPT_RELEASE = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

const OPTIONS = { commandTimeout: 400, connectTimeout: 400, maxRetriesPerRequest: 0, lazyConnect: false };

/**
 * @param {string[]} urls of three (or five) independent Valkey servers
 * @returns {{ lock(key: string, ttl: number): Promise<null | { unlock(): Promise<void>, expired(): boolean }> }}
 */
function createLocker(urls) {
  const servers = urls.map((url) => {
    const server = new Redis(url, OPTIONS);
    server.on('error', () => {});
    return server;
  });
  const needed = (servers.length >> 1) + 1;

  async function everywhere(action) {
    const results = await Promise.allSettled(servers.map(action));
    return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined));
  }

  async function lock(key, ttl) {
    const secret = crypto.randomUUID();
    const unlock = async () => {
      await everywhere((server) => server.eval(SCRIPT_RELEASE, 1, key, secret));
    };
    const t0 = performance.now();
    const replies = await everywhere((server) => server.set(key, secret, 'PX', ttl, 'NX'));
    const until = t0 + ttl - (0.01 * ttl + 2);
    const expired = () => performance.now() >= until;
    if (replies.filter((reply) => reply === 'OK').length < needed || expired()) {
      await unlock();
      return null;
    }
    return { unlock, expired };
  }

  return { lock };
}

module.exports = createLocker;
module.exports.createLocker = createLocker;
