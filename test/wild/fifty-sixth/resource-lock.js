'use strict';

// Lock for the legacy import pipeline. The importer is still callback based
// (see the stream parsers), so this is as well.

var crypto = require('crypto');
var Redis = require('ioredis');

var redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379', { keyPrefix: 'imp:' });

redis.defineCommand('lockFree', {
  numberOfKeys: 1,
  lua: 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'
});

redis.defineCommand('lockProlong', {
  numberOfKeys: 1,
  lua: 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end'
});

function now() {
  var t = process.hrtime();
  return t[0] * 1000 + t[1] / 1e6;
}

function Lock(key, token, validUntil) {
  this.key = key;
  this.token = token;
  this._validUntil = validUntil;
  this._freed = false;
}

/** Milliseconds for which the holder may still rely on the lock. Check before each batch. */
Lock.prototype.remaining = function () {
  return Math.max(0, this._validUntil - now());
};

/** cb(err, stillOurs) */
Lock.prototype.prolong = function (ms, cb) {
  var self = this;
  var until = now() + ms;
  // asking for less than what is left shortens it, whether or not the answer reaches us
  self._validUntil = Math.min(self._validUntil, until);
  redis.lockProlong(self.key, self.token, ms, function (err, n) {
    if (err) return cb(err);
    self._validUntil = n === 1 && !self._freed ? until : 0;
    cb(null, n === 1);
  });
};

/** cb(err, wasOurs) */
Lock.prototype.free = function (cb) {
  this._freed = true;
  this._validUntil = 0;
  redis.lockFree(this.key, this.token, function (err, n) {
    if (err) return cb(err);
    cb(null, n === 1);
  });
};

/**
 * acquire('supplier:17', 60000, { wait: 5000 }, cb)
 *
 * cb(err, lock): lock is null when somebody else kept it during the whole wait.
 * The ttl is up to the caller, who knows how long a batch takes.
 */
function acquire(name, ttl, opts, cb) {
  if (typeof opts === 'function') {
    cb = opts;
    opts = {};
  }
  if (!(ttl > 0) || ttl !== Math.floor(ttl)) {
    return process.nextTick(cb, new TypeError('ttl must be a positive number of ms'));
  }

  var key = 'lock:' + name;
  var token = crypto.randomBytes(18).toString('hex');
  var stopAt = now() + (opts.wait || 0);

  (function attempt() {
    var sent = now();
    redis.set(key, token, 'PX', ttl, 'NX', function (err, reply) {
      if (err) return cb(err);
      if (reply === 'OK') return cb(null, new Lock(key, token, sent + ttl));
      if (now() >= stopAt) return cb(null, null);
      setTimeout(attempt, 50 + Math.random() * 200);
    });
  })();
}

module.exports = { acquire: acquire, Lock: Lock };
