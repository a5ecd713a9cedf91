'use strict';

var Redis = require('ioredis');
var os = require('os');

var SEEN_TTL = 7 * 24 * 3600; // seconds; the broker keeps messages for six days

function toPromise(fn) {
  return new Promise(function (resolve, reject) {
    fn(function (err, value) {
      if (err) reject(err);
      else resolve(value);
    });
  });
}

/**
 * Consumes grade sheets sent by the faculties and writes them to the student register.
 *
 * options.broker    subscribe(queue, onMessage), ack(tag, cb), requeue(tag, delayMs, cb)
 *                   (at-least-once: the same message may arrive on several consumers)
 * options.register  addResults(sheet, cb)  one transaction per sheet; appends to the transcripts
 * options.redis     ioredis client, or nothing to connect to REDIS_URL
 */
function GradeImportConsumer(options) {
  this.broker = options.broker;
  this.register = options.register;
  this.log = options.log || console;
  this.redis = options.redis || new Redis(process.env.REDIS_URL);
  this.name = os.hostname() + '/' + process.pid;
}

GradeImportConsumer.prototype.seenKey = function (message) {
  return 'grades:sheet:' + message.faculty + ':' + message.sheetId;
};

GradeImportConsumer.prototype.markSeen = function (message) {
  var self = this;
  return toPromise(function (cb) {
    self.redis.set(self.seenKey(message), self.name, 'EX', SEEN_TTL, 'NX', cb);
  }).then(function (reply) {
    return reply === 'OK';
  });
};

GradeImportConsumer.prototype.ack = function (tag) {
  var broker = this.broker;
  return toPromise(function (cb) { broker.ack(tag, cb); });
};

GradeImportConsumer.prototype.requeue = function (tag) {
  var broker = this.broker;
  return toPromise(function (cb) { broker.requeue(tag, 30000, cb); });
};

GradeImportConsumer.prototype.importSheet = function (message) {
  var register = this.register;
  var results = message.rows.map(function (row) {
    return { student: row.student, module: message.module, points: Number(row.points) };
  });
  return toPromise(function (cb) {
    register.addResults({ sheet: message.sheetId, results: results }, cb);
  });
};

GradeImportConsumer.prototype.handle = function (message, tag) {
  var self = this;
  return self.markSeen(message)
    .then(function (first) {
      if (!first) {
        self.log.info('sheet ' + message.sheetId + ' was seen before');
        return self.ack(tag);
      }
      return self.importSheet(message).then(function () {
        self.log.info('sheet ' + message.sheetId + ': ' + message.rows.length + ' results');
        return self.ack(tag);
      });
    })
    .catch(function (err) {
      self.log.error('sheet ' + message.sheetId + ' goes back to the queue: ' + err.message);
      return self.requeue(tag);
    });
};

GradeImportConsumer.prototype.start = function () {
  var self = this;
  self.broker.subscribe('grade-sheets', function (message, tag) {
    self.handle(message, tag).catch(function (err) {
      self.log.error('broker: ' + err.message);
    });
  });
  return self;
};

module.exports = { GradeImportConsumer: GradeImportConsumer };
