const express = require('express');
const { createClient } = require('redis');
const { MongoClient, ObjectId } = require('mongodb');
const { randomUUID } = require('crypto');

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.error('redis', e.message));
const mongo = new MongoClient(process.env.MONGO_URL);
const app = express();

const LOCK_MS = 10_000;
const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

async function withHotel(hotel, fn) {
  const key = `lock:turnover:${hotel}`;
  const token = randomUUID();
  for (let tries = 0; ; tries++) {
    const ok = await redis.set(key, token, { nx: true, px: LOCK_MS });
    if (ok === 'OK') break;
    if (tries === 30) throw Object.assign(new Error('busy, try again'), { status: 503 });
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 50));
  }
  try {
    return await fn();
  } finally {
    await redis
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((e) => console.warn('unlock', hotel, e.message));
  }
}

// the front desk checks a guest out: give the room to whoever has the fewest left today
app.post('/hotels/:hotel/rooms/:room/turnover', async (req, res, next) => {
  const { hotel, room } = req.params;
  try {
    const db = mongo.db('housekeeping');
    const shift = await withHotel(hotel, async () => {
      const open = await db
        .collection('tasks')
        .findOne({ hotel, room, done: false }, { maxTimeMS: 2000 });
      if (open) return { taskId: open._id, keeper: open.keeper };

      const [keeper] = await db
        .collection('keepers')
        .find({ hotel, onShift: true, minutesLeft: { $gte: 30 } }, { maxTimeMS: 2000 })
        .sort({ assigned: 1, minutesLeft: -1 })
        .limit(1)
        .toArray();
      if (!keeper) return null;

      const task = { _id: new ObjectId(), hotel, room, keeper: keeper._id, done: false, at: new Date() };
      await db.collection('tasks').insertOne(task, { maxTimeMS: 2000 });
      await db
        .collection('keepers')
        .updateOne({ _id: keeper._id }, { $inc: { assigned: 1, minutesLeft: -30 } }, { maxTimeMS: 2000 });
      return { taskId: task._id, keeper: keeper._id };
    });

    if (!shift) return res.status(409).json({ error: 'nobody left on shift' });
    res.json(shift);
  } catch (err) {
    if (err.status) return res.status(err.status).json({ error: err.message });
    next(err);
  }
});

(async () => {
  await Promise.all([redis.connect(), mongo.connect()]);
  app.listen(process.env.PORT || 3000);
})();
