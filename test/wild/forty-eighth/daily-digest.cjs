"use strict";
// Runs on every web dyno. A digest that goes missing is tolerable, sending it twice is not.
const { randomUUID } = require("node:crypto");
const cron = require("node-cron");
const Redis = require("ioredis");
const { Pool } = require("pg");
const { sendMail, renderDigest } = require("./mail");

const redis = new Redis(process.env.REDIS_URL);
redis.on("error", (err) => console.error("redis:", err.message));
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

async function claim(day) {
  const key = `digest:claim:${day}`;
  const id = randomUUID();
  const reply = await redis.set(key, id, "EX", 36 * 3600, "NX");
  // ioredis re-sends after a reconnect, so a null may be the echo of our own first try
  return reply === "OK" || (await redis.get(key)) === id;
}

async function sendDigest(day) {
  const { rows: users } = await pool.query("SELECT id, email FROM users WHERE digest_enabled");
  for (const user of users) {
    const { rowCount } = await pool.query(
      "INSERT INTO digest_log (day, user_id) VALUES ($1, $2) ON CONFLICT (day, user_id) DO NOTHING",
      [day, user.id]
    );
    if (rowCount === 0) continue;
    try {
      await sendMail(user.email, `Your digest for ${day}`, await renderDigest(user.id, day));
    } catch (err) {
      console.error(`digest to ${user.id} failed:`, err.message);
    }
  }
}

cron.schedule(
  "0 7 * * *",
  async () => {
    const day = new Date().toISOString().slice(0, 10);
    try {
      if (!(await claim(day))) return;
      await sendDigest(day);
      console.log(`digest ${day} sent`);
    } catch (err) {
      console.error(`digest ${day} aborted:`, err);
    }
  },
  { timezone: "Etc/UTC" }
);
