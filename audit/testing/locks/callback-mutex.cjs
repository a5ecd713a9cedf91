function Mutex(redis, key, timeout) {
  this.redis = redis;
  this.key = key;
  this.timeout = timeout || 8_000;
}

Mutex.prototype.lock = function (cb) {
  this.redis.set(this.key, 'locked', 'PX', this.timeout, 'NX', (err, reply) => {
    cb(err || (reply === 'OK' ? null : new Error(`${this.key} is locked`)));
  });
};

/** Hands its callback on. */
Mutex.prototype.unlock = function (cb) {
  this.redis.del(this.key, cb);
};

module.exports = { Mutex };
