'use strict';

var crypto = require('crypto');
var Redis = require('ioredis');
var config = require('./config');
var log = require('../logger').child({ module: 'bay-lock' });

var client = new Redis(config.redis);

var LOCK_SECONDS = config.bayLockSeconds || 45;
var RETRY_MS = 200;
var MAX_TRIES = 50;

var RELEASE_SCRIPT = [
  'if redis.call("get", KEYS[1]) == ARGV[1] then',
  '  return redis.call("del", KEYS[1])',
  'else',
  '  return 0',
  'end'
].join('\n');

function lockKey(warehouse, bay) {
  return ['wms', warehouse, 'bay', bay, 'lock'].join(':');
}

/**
 * Take the lock of a loading bay.
 *
 * @param {string} warehouse
 * @param {string} bay
 * @param {function(Error, {key: string, owner: string, expiresAt: number})} callback
 */
function acquire(warehouse, bay, callback) {
  var key = lockKey(warehouse, bay);
  var owner = crypto.randomBytes(12).toString('hex');
  var tries = 0;

  function attempt() {
    tries += 1;
    client.setnx(key, owner, function (err, created) {
      if (err) {
        return callback(err);
      }
      if (created !== 1) {
        if (tries >= MAX_TRIES) {
          var busy = new Error('Bay ' + bay + ' in ' + warehouse + ' is busy');
          busy.code = 'EBUSY';
          return callback(busy);
        }
        return setTimeout(attempt, RETRY_MS + Math.floor(Math.random() * 50));
      }
      var expiresAt = Date.now() + LOCK_SECONDS * 1000;
      client.expire(key, LOCK_SECONDS, function (err) {
        if (err) {
          return callback(err);
        }
        log.debug({ key: key, tries: tries }, 'bay locked');
        callback(null, { key: key, owner: owner, expiresAt: expiresAt });
      });
    });
  }

  attempt();
}

function release(lock, callback) {
  client.eval(RELEASE_SCRIPT, 1, lock.key, lock.owner, function (err, deleted) {
    if (err) {
      return callback(err);
    }
    if (deleted !== 1) {
      log.warn({ key: lock.key }, 'lock was gone before release');
    }
    callback(null, deleted === 1);
  });
}

/** True while there is at least `marginMs` left to work under the lock. */
function stillValid(lock, marginMs) {
  return Date.now() + (marginMs || 2000) < lock.expiresAt;
}

module.exports = {
  acquire: acquire,
  release: release,
  stillValid: stillValid
};
