'use strict';

const axios = require('axios');
const Redis = require('ioredis');
const { Semaphore } = require('redis-semaphore');
const pino = require('pino');

const log = pino({ name: 'carrier-sessions' });
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000 });

// ParcelNet blocks the account for the day when more than 4 sessions are open.
const MAX_SESSIONS = Number(process.env.PARCELNET_MAX_SESSIONS || 4);
const SESSION_LIMIT_MS = 60000;
const CALL_TIMEOUT_MS = 12000;

const api = axios.create({
  baseURL: process.env.PARCELNET_URL,
  headers: { 'X-Account': process.env.PARCELNET_ACCOUNT },
});

const sessions = new Semaphore(redis, 'parcelnet:sessions', MAX_SESSIONS, {
  lockTimeout: SESSION_LIMIT_MS,
  refreshInterval: 0,
  acquireTimeout: 20000,
  retryInterval: 250,
});

function call(method, url, data) {
  return api.request({
    method,
    url,
    data,
    timeout: CALL_TIMEOUT_MS,
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
}

async function withSession(work) {
  await sessions.acquire();
  try {
    const { data: session } = await call('post', '/sessions', { client: 'label-service' });
    try {
      return await work(session.id);
    } finally {
      await call('delete', `/sessions/${session.id}`).catch((err) => {
        log.warn({ err, session: session.id }, 'session not closed');
      });
    }
  } finally {
    await sessions.release().catch((err) => log.warn({ err }, 'session slot not released'));
  }
}

async function createLabel(order) {
  return withSession(async (sessionId) => {
    const { data } = await call('post', `/sessions/${sessionId}/labels`, {
      reference: order.id,
      weightGrams: order.weightGrams,
      service: order.express ? 'EXPRESS' : 'STANDARD',
      to: order.address,
    });
    log.info({ orderId: order.id, tracking: data.tracking }, 'label created');
    return { tracking: data.tracking, pdfUrl: data.pdf };
  });
}

async function cancelLabel(tracking) {
  return withSession(async (sessionId) => {
    await call('delete', `/sessions/${sessionId}/labels/${tracking}`);
    log.info({ tracking }, 'label cancelled');
  });
}

module.exports = function register(app) {
  app.post('/labels', async (req, res, next) => {
    try {
      res.status(201).json(await createLabel(req.body));
    } catch (err) {
      if (err.name === 'TimeoutError') return res.status(503).json({ error: 'carrier is busy' });
      return next(err);
    }
  });

  app.delete('/labels/:tracking', async (req, res, next) => {
    try {
      await cancelLabel(req.params.tracking);
      res.status(204).end();
    } catch (err) {
      next(err);
    }
  });
};
