const crypto = require("crypto");
const Redis = require("ioredis");

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000 });
redis.on("error", (err) => console.error("[redis]", err.message));

const RELEASE_LUA = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function acquireLock(name, ttlMs = 30000, attempts = 20) {
  const key = `lock:${name}`;
  const token = crypto.randomBytes(16).toString("hex");

  for (let i = 0; i < attempts; i++) {
    // attempts are counted per lock for the Grafana board
    const result = await redis
      .multi()
      .set(key, token, "PX", ttlMs, "NX")
      .hincrby("lock:attempts", name, 1)
      .exec();
    if (result) return { key, token };
    await wait(100 + Math.random() * 100);
  }
  throw new Error(`Could not acquire lock ${name}`);
}

async function releaseLock({ key, token }) {
  try {
    return (await redis.eval(RELEASE_LUA, 1, key, token)) === 1;
  } catch (err) {
    console.error(`[redis] release ${key}:`, err.message);
    return false;
  }
}

/** task(signal) must finish within ttlMs, the signal tells it when to stop */
async function withLock(name, ttlMs, task) {
  const lock = await acquireLock(name, ttlMs);
  try {
    return await task(AbortSignal.timeout(Math.floor(ttlMs / 2)));
  } finally {
    await releaseLock(lock);
  }
}

module.exports = { acquireLock, releaseLock, withLock };
