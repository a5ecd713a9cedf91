var crypto = require('crypto');
var express = require('express');
var Redis = require('ioredis');
var pg = require('pg');

var redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1, commandTimeout: 1500 });
redis.on('error', function (err) { console.error('redis error', err.message); });

var pool = new pg.Pool({
  connectionTimeoutMillis: 2000,
  statement_timeout: 2000,
  query_timeout: 3000
});

var TTL = 12000;
var MAX_WAIT = 2500;

var UNLOCK = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

function lock(key, cb) {
  var token = crypto.randomBytes(16).toString('hex');
  var giveUp = Date.now() + MAX_WAIT;

  function attempt() {
    redis.set(key, token, 'PX', TTL, 'NX', function (err, reply) {
      if (err) return cb(err);
      if (reply === 'OK') return cb(null, token);
      if (Date.now() >= giveUp) {
        var busy = new Error('section busy');
        busy.status = 409;
        return cb(busy);
      }
      setTimeout(attempt, 60 + Math.floor(Math.random() * 90));
    });
  }
  attempt();
}

function unlock(key, token, cb) {
  redis.eval(UNLOCK, 1, key, token, function (err) {
    if (err) console.error('unlock ' + key + ': ' + err.message);
    cb();
  });
}

var HOLD_SQL =
  'WITH free AS (' +
  '  SELECT id FROM seats' +
  '   WHERE section_id = $1 AND id = ANY($2) AND sold = false' +
  '     AND (held_by IS NULL OR held_until < now())' +
  '   ORDER BY id FOR UPDATE' +
  ') ' +
  'UPDATE seats SET held_by = $3, held_until = now() + interval \'8 minutes\' ' +
  ' WHERE id IN (SELECT id FROM free) AND (SELECT count(*) FROM free) = $4 ' +
  'RETURNING id';

var router = express.Router();

router.post('/sections/:id/holds', express.json(), function (req, res, next) {
  var seats = req.body && req.body.seats;
  if (!Array.isArray(seats) || seats.length === 0 || seats.length > 8) {
    return res.status(400).json({ error: 'seats required' });
  }
  seats = seats.map(String).filter(function (s, i, all) { return all.indexOf(s) === i; });

  var key = 'hold:section:' + req.params.id;
  lock(key, function (err, token) {
    if (err) {
      if (err.status === 409) return res.status(409).json({ error: err.message });
      return next(err);
    }
    pool.query(HOLD_SQL, [req.params.id, seats, req.user.id, seats.length], function (qerr, result) {
      unlock(key, token, function () {
        if (qerr) return next(qerr);
        if (result.rowCount !== seats.length) return res.status(409).json({ error: 'seats taken' });
        res.status(201).json({ held: result.rows.map(function (r) { return r.id; }) });
      });
    });
  });
});

module.exports = router;
