'use strict';

const express = require('express');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL);
const router = express.Router();

const MAX_TRIES = 5;

async function placeBid(auctionId, bidder, cents) {
  const key = `auction:${auctionId}`;

  for (let i = 0; i < MAX_TRIES; i++) {
    await redis.watch(key);
    const auction = await redis.hgetall(key);

    if (auction.state !== 'open' || cents <= Number(auction.highest || 0)) {
      await redis.unwatch();
      return { accepted: false, highest: Number(auction.highest || 0) };
    }

    const replies = await redis
      .multi()
      .hset(key, { highest: String(cents), bidder })
      .rpush(`${key}:bids`, JSON.stringify({ bidder, cents, at: Date.now() }))
      .exec();

    if (replies !== null) return { accepted: true, highest: cents };
  }
  throw new Error('auction is too busy');
}

router.post('/auctions/:id/bids', express.json(), async (req, res, next) => {
  try {
    const cents = Number(req.body.cents);
    if (!Number.isSafeInteger(cents) || cents <= 0) {
      return res.status(422).json({ error: 'cents must be a positive integer' });
    }
    const outcome = await placeBid(req.params.id, req.user.id, cents);
    res.status(outcome.accepted ? 201 : 409).json(outcome);
  } catch (err) {
    next(err);
  }
});

module.exports = router;
