'use strict'

var crypto = require('crypto')

var UNLOCK_SCRIPT =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'

/**
 * lock(client, 'import', 5000, function (err, unlock, validUntil) { ... unlock(cb) })
 *
 * `client` is an ioredis client. `err.code` is 'ELOCKED' when somebody else has it. `validUntil` is a time of
 * performance.now(); the work has to be over by then.
 */
function lock(client, name, ttl, callback) {
  var key = 'lock:' + name
  var token = crypto.randomBytes(16).toString('hex')
  var begin = performance.now()

  client.set(key, token, 'PX', ttl, 'NX', function (err, reply) {
    if (err) return callback(err)
    if (reply !== 'OK') {
      var busy = new Error(name + ' is locked')
      busy.code = 'ELOCKED'
      return callback(busy)
    }

    var validUntil = begin + ttl - Math.ceil(ttl / 50) - 2
    if (performance.now() >= validUntil) {
      return unlock(function (unlockErr) {
        callback(unlockErr || new Error('took longer than the lock lives'))
      })
    }
    callback(null, unlock, validUntil)
  })

  function unlock(done) {
    client.eval(UNLOCK_SCRIPT, 1, key, token, function (err, deleted) {
      if (typeof done === 'function') done(err, deleted === 1)
    })
  }
}

module.exports = lock
module.exports.lock = lock
