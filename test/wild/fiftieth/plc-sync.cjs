// Pushes the current recipe table to the line controllers. Started by a timer on both gateway boxes.
// No npm on the gateways, so redis is spoken by hand here.
var net = require('net');
var http = require('http');
var fs = require('fs');
var crypto = require('crypto');

var KEY = 'plc:recipe-sync';
var TTL_MS = 60000;
var PUSH_LIMIT_MS = 35000;

function RedisConn(host, port) {
  var self = this;
  this.waiting = [];
  this.buf = '';
  this.sock = net.connect(port, host);
  this.sock.setEncoding('latin1');
  this.sock.setTimeout(50000, function () { self.sock.destroy(new Error('redis timeout')); });
  this.sock.on('data', function (d) { self.buf += d; self.drain(); });
  this.sock.on('error', function (e) { self.fail(e); });
  this.sock.on('close', function () { self.fail(new Error('redis connection closed')); });
}
RedisConn.prototype.fail = function (err) {
  this.waiting.splice(0).forEach(function (cb) { cb(err); });
};
RedisConn.prototype.drain = function () {
  for (;;) {
    var eol = this.buf.indexOf('\r\n');
    if (eol < 0) return;
    var type = this.buf[0], head = this.buf.slice(1, eol), end = eol + 2, val = head, err = null;
    if (type === '-') err = new Error(head);
    if (type === ':') val = Number(head);
    if (type === '$') {
      var len = Number(head);
      if (len < 0) val = null;
      else {
        if (this.buf.length < end + len + 2) return;
        val = this.buf.slice(end, end + len);
        end += len + 2;
      }
    }
    this.buf = this.buf.slice(end);
    this.waiting.shift()(err, val);
  }
};
RedisConn.prototype.cmd = function (args, cb) {
  if (this.sock.destroyed) return cb(new Error('redis connection closed'));
  this.waiting.push(cb);
  this.sock.write('*' + args.length + '\r\n' + args.map(function (a) {
    a = String(a);
    return '$' + Buffer.byteLength(a) + '\r\n' + a + '\r\n';
  }).join(''));
};

function lock(conn, cb) {
  var token = crypto.randomBytes(16).toString('hex');
  conn.cmd(['SET', KEY, token, 'NX', 'PX', TTL_MS], function (err, r) {
    if (err) return cb(err);
    cb(null, r === 'OK' ? token : null);
  });
}

function unlock(conn, token, cb) {
  conn.cmd(['GET', KEY], function (err, current) {
    if (err) return cb(err);
    if (current !== token) return cb(null, false);
    conn.cmd(['DEL', KEY], function (err2, n) { cb(err2, n === 1); });
  });
}

function push(cb) {
  var finished = false;
  function done(err) { if (!finished) { finished = true; cb(err); } }
  var body;
  try { body = fs.readFileSync('/var/lib/recipes/current.json'); } catch (e) { return cb(e); }
  var req = http.request({
    host: process.env.PLC_HOST, port: 8080, path: '/recipes', method: 'PUT',
    headers: { 'content-type': 'application/json', 'content-length': body.length },
    signal: AbortSignal.timeout(PUSH_LIMIT_MS)
  }, function (res) {
    res.resume();
    res.on('error', done);
    res.on('end', function () { done(res.statusCode < 300 ? null : new Error('plc: HTTP ' + res.statusCode)); });
  });
  req.on('error', done);
  req.end(body);
}

var conn = new RedisConn(process.env.REDIS_HOST || '10.0.4.2', 6379);
lock(conn, function (err, token) {
  if (err) { console.error(err.message); process.exit(1); }
  if (!token) { console.log('other gateway is syncing'); process.exit(0); }
  push(function (perr) {
    if (perr) console.error('sync failed: ' + perr.message);
    unlock(conn, token, function (uerr) {
      if (uerr) console.error('unlock failed: ' + uerr.message);
      process.exit(perr ? 1 : 0);
    });
  });
});
