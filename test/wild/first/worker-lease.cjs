const Redis = require('ioredis');

const redis = new Redis({
  host: process.env.REDIS_HOST || 'localhost',
  port: process.env.REDIS_PORT || 6379,
  commandTimeout: 1000,
  maxRetriesPerRequest: 1,
});
redis.on('error', function (err) {
  console.error('redis error', err.message);
});

redis.defineCommand('releaseLease', {
  numberOfKeys: 1,
  lua: 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end',
});

// identifies this worker
const owner = 'worker-' + process.pid;

exports.take = async function take(queue, ttl) {
  const reply = await redis.set('lease:' + queue, owner, 'PX', ttl, 'NX');
  return reply === 'OK';
};

exports.free = async function free(queue) {
  return redis.releaseLease('lease:' + queue, owner);
};
