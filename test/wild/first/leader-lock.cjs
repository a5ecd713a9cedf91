const { randomUUID } = require('crypto');
const Redis = require('iovalkey');

const unlockScript = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

class LeaderLock {
  /**
   * @param {import('iovalkey').Redis[]} clients
   */
  constructor(clients) {
    this.clients = clients;
    this.quorum = Math.floor(clients.length / 2) + 1;
  }

  static connect(hosts) {
    return new LeaderLock(
      hosts.map((host) => {
        const client = new Redis(host, { commandTimeout: 500, maxRetriesPerRequest: 0 });
        client.on('error', () => {});
        return client;
      }),
    );
  }

  async tryAcquire(role, ttl) {
    const token = randomUUID();
    const startTime = performance.now();
    let n = 0;
    await Promise.all(
      this.clients.map(async (client) => {
        try {
          if ((await client.set(role, token, 'PX', ttl, 'NX')) === 'OK') n++;
        } catch (_) {
          // counts as a no
        }
      }),
    );
    const validUntil = startTime + ttl;
    const lock = { role, token, isValid: () => performance.now() < validUntil };
    if (n >= this.quorum && lock.isValid()) return lock;
    await this.release(lock);
    return null;
  }

  async release(lock) {
    lock.isValid = () => false;
    await Promise.all(
      this.clients.map((client) => client.eval(unlockScript, 1, lock.role, lock.token).catch(() => 0)),
    );
  }
}

module.exports = { LeaderLock };
