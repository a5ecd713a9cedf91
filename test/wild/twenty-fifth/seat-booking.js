'use strict';
var net = require('node:net');
var crypto = require('node:crypto');

var LOCK_MS = 15000;
var ANSWER_MS = 400;
var UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

// Tiny client, we only need SET and EVAL (answers: +OK, :n, $-1, -ERR ...)
function connect(port, host) {
  var sock = net.connect(port, host);
  var waiting = [];
  var text = '';
  var dead = null;

  sock.setEncoding('latin1');
  sock.setNoDelay(true);

  sock.on('data', function (chunk) {
    text += chunk;
    var eol;
    while ((eol = text.indexOf('\r\n')) >= 0) {
      var line = text.slice(0, eol);
      text = text.slice(eol + 2);
      var cb = waiting.shift();
      if (!cb) continue;
      if (line[0] === '-') cb(new Error(line.slice(1)));
      else if (line === '$-1') cb(null, null);
      else if (line[0] === ':') cb(null, Number(line.slice(1)));
      else cb(null, line.slice(1));
    }
  });

  function die(err) {
    dead = dead || err || new Error('redis connection closed');
    waiting.splice(0).forEach(function (cb) { cb(dead); });
  }
  sock.on('error', die);
  sock.on('close', function () { die(); });

  return {
    command: function (args, cb) {
      if (dead) return process.nextTick(cb, dead);
      function answered(err, value) {
        clearTimeout(timer);
        cb(err, value);
      }
      // Customers do not wait for a slow Redis: drop the request and tell them to try again.
      var timer = setTimeout(function () {
        var i = waiting.indexOf(answered);
        if (i >= 0) waiting.splice(i, 1);
        cb(new Error('redis did not answer in ' + ANSWER_MS + ' ms'));
      }, ANSWER_MS);
      waiting.push(answered);
      sock.write('*' + args.length + '\r\n' + args.map(function (a) {
        a = String(a);
        return '$' + Buffer.byteLength(a) + '\r\n' + a + '\r\n';
      }).join(''));
    },
    close: function () { sock.end(); }
  };
}

function withSeat(redis, seat, work, done) {
  var key = 'seat-lock:' + seat;
  var token = crypto.randomBytes(16).toString('hex');
  redis.command(['SET', key, token, 'NX', 'PX', LOCK_MS], function (err, reply) {
    if (err) return done(err);
    if (reply !== 'OK') return done(null, { status: 'busy' });
    work(function (workErr, result) {
      redis.command(['EVAL', UNLOCK, 1, key, token], function (unlockErr) {
        if (unlockErr) console.warn('lock on seat %s is left to expire: %s', seat, unlockErr.message);
        done(workErr, result);
      });
    });
  });
}

// store.get / store.put: key-value store with last write wins, each call errors out after 2 s
function bookSeat(deps, seat, customer, done) {
  withSeat(deps.redis, seat, function (finish) {
    deps.store.get('seat:' + seat, function (err, current) {
      if (err) return finish(err);
      if (current && current.customer) return finish(null, { status: 'taken' });
      deps.store.put('seat:' + seat, { customer: customer, at: Date.now() }, function (putErr) {
        if (putErr) return finish(putErr);
        finish(null, { status: 'booked' });
      });
    });
  }, done);
}

module.exports = { connect: connect, bookSeat: bookSeat };
