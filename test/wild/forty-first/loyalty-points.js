'use strict';

const { randomBytes } = require('crypto');
const { setTimeout: sleep } = require('timers/promises');
const express = require('express');
const Redis = require('ioredis');
const mongoose = require('mongoose');

const redis = new Redis(process.env.REDIS_URL);

const Member = mongoose.model(
  'Member',
  new mongoose.Schema({
    email: String,
    points: { type: Number, default: 0 },
    history: [{ at: Date, delta: Number, reward: String }],
  })
);

const REWARDS = { coffee: 120, cake: 200, mug: 900 };

const LOCK_MS = 30000;
const WAIT_MS = 5000;

redis.defineCommand('unlock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('DEL', KEYS[1])
    end
    return 0
  `,
});

async function withLock(key, fn) {
  const token = randomBytes(16).toString('hex');
  const deadline = Date.now() + WAIT_MS;
  while ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
    if (Date.now() > deadline) {
      const err = new Error('member is busy');
      err.status = 423;
      throw err;
    }
    await sleep(50 + Math.random() * 100);
  }
  try {
    return await fn();
  } finally {
    await redis.unlock(key, token);
  }
}

const router = express.Router();

router.post('/members/:id/rewards/:reward', async (req, res, next) => {
  try {
    const cost = REWARDS[req.params.reward];
    if (!cost) return res.status(404).json({ error: 'unknown reward' });

    const member = await Member.findById(req.params.id).lean();
    if (!member) return res.status(404).json({ error: 'unknown member' });

    const left = await withLock(`member:${member._id}:points`, async () => {
      if (member.points < cost) return null;
      const points = member.points - cost;
      await Member.updateOne(
        { _id: member._id },
        {
          $set: { points },
          $push: { history: { at: new Date(), delta: -cost, reward: req.params.reward } },
        }
      ).maxTimeMS(5000);
      return points;
    });

    if (left === null) return res.status(402).json({ error: 'not enough points' });
    res.json({ reward: req.params.reward, points: left });
  } catch (err) {
    next(err);
  }
});

module.exports = router;
