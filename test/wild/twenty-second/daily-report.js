'use strict';

// Started by cron on every app server at 04:30 UTC. The first one to claim the
// day builds the report, the others go home. The claim is never taken back: a
// report that failed is looked at by a human and started by hand.

var net = require('node:net');
var os = require('node:os');
var path = require('node:path');
var execFile = require('node:child_process').execFile;

var HOST = process.env.REDIS_HOST || '127.0.0.1';
var PORT = Number(process.env.REDIS_PORT || 6379);
var PASSWORD = process.env.REDIS_PASSWORD || '';
var KEEP_SECONDS = 3 * 24 * 60 * 60;

function encode(args) {
  return '*' + args.length + '\r\n' + args.map(function (arg) {
    return '$' + Buffer.byteLength(arg) + '\r\n' + arg + '\r\n';
  }).join('');
}

// Sends the commands over a fresh connection and calls back with the last
// reply. Good for commands that are answered in one line, as SET and AUTH are.
function send(commands, callback) {
  var socket = net.connect(PORT, HOST);
  var text = '';
  var called = false;

  function finish(err, reply) {
    if (called) return;
    called = true;
    socket.destroy();
    callback(err, reply);
  }

  socket.setEncoding('utf8');
  socket.setTimeout(5000, function () { finish(new Error('redis: timeout')); });
  socket.on('error', finish);
  socket.on('close', function () { finish(new Error('redis: connection closed')); });
  socket.on('connect', function () { socket.write(commands.map(encode).join('')); });
  socket.on('data', function (chunk) {
    text += chunk;
    var lines = text.split('\r\n');
    lines.pop(); // what follows the last line end is not complete yet
    for (var i = 0; i < lines.length; i++) {
      if (lines[i].charAt(0) === '-') return finish(new Error('redis: ' + lines[i].slice(1)));
    }
    if (lines.length >= commands.length) finish(null, lines[commands.length - 1]);
  });
}

function claimDay(day, callback) {
  var who = os.hostname() + ':' + process.pid;
  var commands = PASSWORD ? [['AUTH', PASSWORD]] : [];
  commands.push(['SET', 'daily-report:' + day, who, 'NX', 'EX', String(KEEP_SECONDS)]);
  send(commands, function (err, reply) {
    if (err) return callback(err);
    if (reply === '+OK') return callback(null, true);
    if (reply === '$-1') return callback(null, false);
    callback(new Error('redis: unexpected reply ' + reply));
  });
}

function runDaily(day, build, callback) {
  claimDay(day, function (err, ours) {
    // No clear answer means no report: the claim may have gone through or not.
    if (err) return callback(err);
    if (!ours) return callback(null, false);
    build(day, function (buildErr) {
      callback(buildErr, true);
    });
  });
}

function buildReport(day, callback) {
  var script = path.join(__dirname, 'build-report.js');
  execFile(process.execPath, [script, day], function (err, stdout) {
    if (stdout) process.stdout.write(stdout);
    callback(err);
  });
}

module.exports = { runDaily: runDaily, claimDay: claimDay };

if (require.main === module) {
  runDaily(new Date().toISOString().slice(0, 10), buildReport, function (err, ran) {
    if (err) {
      console.error(err);
      process.exitCode = 1;
    } else {
      console.log(ran ? 'report built' : 'somebody else builds the report');
    }
  });
}
