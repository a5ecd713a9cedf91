import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import mongoose from "mongoose";
import { createClient } from "redis";

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on("error", (err) => console.error("redis:", err.message));
await redis.connect();
await mongoose.connect(process.env.MONGO_URL);

const Show = mongoose.model(
  "Show",
  new mongoose.Schema({
    title: String,
    seats: { type: Map, of: String }, // "A12" -> user id, or "" when free
    rev: { type: Number, default: 0 },
  }),
);

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0`;

const LOCK_TTL = 10_000;
const LOCK_WAIT = 2_000;

async function lockShow(showId) {
  const key = `lock:show:${showId}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + LOCK_WAIT;
  while (true) {
    if ((await redis.set(key, token, { NX: true, PX: LOCK_TTL })) === "OK") {
      return async () => {
        try {
          await redis.eval(RELEASE, { keys: [key], arguments: [token] });
        } catch (err) {
          console.warn(`unlock ${key}: ${err.message}`);
        }
      };
    }
    if (Date.now() > giveUpAt) return null;
    await sleep(40 + Math.random() * 60);
  }
}

const app = express();
app.use(express.json());

app.post("/shows/:id/book", async (req, res) => {
  const { id } = req.params;
  const { userId, seats } = req.body ?? {};
  if (!mongoose.isValidObjectId(id) || typeof userId !== "string" || !userId) return res.sendStatus(400);
  if (!Array.isArray(seats) || !seats.length || !seats.every((s) => /^[A-Z]\d{1,2}$/.test(s))) {
    return res.status(400).json({ error: "bad seats" });
  }

  let unlock;
  try {
    unlock = await lockShow(id);
  } catch (err) {
    console.error("lock:", err.message);
    return res.status(503).json({ error: "try again later" });
  }
  if (!unlock) return res.status(429).json({ error: "busy, try again" });

  try {
    const show = await Show.findById(id).lean().maxTimeMS(3000);
    if (!show) return res.sendStatus(404);

    const taken = seats.filter((s) => show.seats[s] !== "");
    if (taken.length) return res.status(409).json({ error: "taken", taken });

    const patch = Object.fromEntries(seats.map((s) => [`seats.${s}`, userId]));
    const { modifiedCount } = await Show.updateOne(
      { _id: id, rev: show.rev },
      { $set: patch, $inc: { rev: 1 } },
    ).maxTimeMS(3000);
    if (modifiedCount !== 1) return res.status(409).json({ error: "changed meanwhile" });

    return res.status(201).json({ seats });
  } catch (err) {
    console.error("book:", err);
    return res.status(500).json({ error: "internal" });
  } finally {
    await unlock();
  }
});

app.listen(process.env.PORT ?? 3000);
