'use strict';

const crypto = require('crypto');
const { createClient } = require('redis');

// The provider wants a second of silence between two requests of our account, and never two at once.
const GAP_MS = 1100;
const CALL_MS = 8000;
const LOCK_MS = 25000;
const PATIENCE_MS = 60000;

const TURN = 'geocode:turn';
const GAP = 'geocode:gap';
const RESULTS = 'geocode:results';

const UNLOCK =
  "if redis.call('get', KEYS[1]) == ARGV[1] then " +
  "  return redis.call('del', KEYS[1]) " +
  'else ' +
  '  return 0 ' +
  'end';

function pause(ms) {
  return new Promise(function (resolve) {
    setTimeout(resolve, ms);
  });
}

function takeTurn(client, giveUpAt) {
  const token = crypto.randomBytes(20).toString('base64');
  const asked = performance.now();
  return client.set(TURN, token, { NX: true, PX: LOCK_MS }).then(function (reply) {
    if (reply === 'OK') return { token: token, until: asked + LOCK_MS };
    if (performance.now() > giveUpAt) throw new Error('geocode: no turn within ' + PATIENCE_MS + ' ms');
    return pause(100 + Math.random() * 150).then(function () {
      return takeTurn(client, giveUpAt);
    });
  });
}

function giveTurnBack(client, turn) {
  return client.eval(UNLOCK, { keys: [TURN], arguments: [turn.token] }).catch(function (err) {
    console.warn('geocode: turn not given back, it will expire', err.message);
  });
}

// Redis counts the gap, so the clocks of our hosts do not matter.
function waitForGap(client) {
  return client.pTTL(GAP).then(function (left) {
    return left > 0 ? pause(left) : undefined;
  });
}

function callProvider(baseUrl, address) {
  const url = new URL('/search', baseUrl);
  url.searchParams.set('q', address);
  return fetch(url, { signal: AbortSignal.timeout(CALL_MS) }).then(function (res) {
    if (!res.ok) throw new Error('geocode: provider answered ' + res.status);
    return res.json();
  });
}

function createGeocoder(options) {
  const client = options.client || createClient({ url: process.env.REDIS_URL });
  const baseUrl = options.baseUrl;
  if (!options.client) client.on('error', function (err) { console.error('geocode: redis', err.message); });
  const ready = client.isOpen ? Promise.resolve() : client.connect();

  function lookUp(address) {
    return client.hGet(RESULTS, address).then(function (hit) {
      return hit ? JSON.parse(hit) : null;
    });
  }

  function ask(turn, address) {
    return lookUp(address).then(function (known) {
      if (known) return known; // somebody else asked the same while we queued
      return waitForGap(client)
        .then(function () {
          // covers the whole call, in case we die before the answer; shortened below
          return client.set(GAP, '1', { PX: CALL_MS + GAP_MS });
        })
        .then(function () {
          // A slow Redis may have eaten our turn: the call has to fit in what is left.
          if (performance.now() + CALL_MS + 2000 > turn.until) throw new Error('geocode: turn too old');
          return callProvider(baseUrl, address);
        })
        .then(function (answer) {
          return client
            .multi()
            .hSet(RESULTS, address, JSON.stringify(answer))
            .set(GAP, '1', { PX: GAP_MS })
            .exec()
            .then(function () {
              return answer;
            });
        });
    });
  }

  return function geocode(address) {
    return ready
      .then(function () {
        return lookUp(address);
      })
      .then(function (known) {
        if (known) return known;
        return takeTurn(client, performance.now() + PATIENCE_MS).then(function (turn) {
          return ask(turn, address).finally(function () {
            return giveTurnBack(client, turn);
          });
        });
      });
  };
}

module.exports = { createGeocoder };
