var express = require('express');
var Redis = require('ioredis');
var sms = require('../lib/sms');
var config = require('./config');

var redis = new Redis(config.redis.port, config.redis.host);
var router = express.Router();

var COOLDOWN = 60; // seconds between two codes for one number

function guard(phone) {
  var key = 'otp:cooldown:' + phone;
  return redis.setnx(key, Date.now()).then(function (created) {
    if (!created) {
      return false;
    }
    return redis.expire(key, COOLDOWN).then(function () {
      return true;
    });
  });
}

router.post('/otp', function (req, res, next) {
  var phone = String(req.body.phone || '').replace(/[^\d+]/g, '');
  if (!/^\+\d{8,15}$/.test(phone)) {
    return res.status(400).json({ error: 'invalid phone' });
  }

  guard(phone)
    .then(function (allowed) {
      if (!allowed) {
        return res.status(429).json({ error: 'please wait before requesting a new code' });
      }
      return sms.sendCode(phone).then(function () {
        res.status(204).end();
      });
    })
    .catch(next);
});

module.exports = router;
