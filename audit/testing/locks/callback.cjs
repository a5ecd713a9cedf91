const { randomBytes } = require('node:crypto');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Tells by callbacks, as Node's own functions do. */
module.exports = function createLock(client) {
  return function lock(key, ttl, callback) {
    const token = randomBytes(12).toString('hex');
    client.set(key, token, 'PX', ttl, 'NX', (error, reply) => {
      if (error) return callback(error);
      if (reply !== 'OK') return callback(null, null);
      callback(null, (done) => client.eval(RELEASE, 1, key, token, done));
    });
  };
};
