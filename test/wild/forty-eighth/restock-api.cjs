const os = require("node:os");
const { randomUUID } = require("node:crypto");
const fastify = require("fastify")({ logger: true });
const Redis = require("ioredis");
const { Pool } = require("pg");

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 1000 });
redis.on("error", (err) => fastify.log.error(err));
const pool = new Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 2000, query_timeout: 3000 });

const OWNER = `${os.hostname()}:${process.pid}:${randomUUID()}`;

// re-entrant: nested calls of the owner get the lock again
const LOCK = `
local owner = redis.call("get", KEYS[1])
if owner == false or owner == ARGV[1] then
  redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
  return 1
end
return 0`;
const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;

async function withLock(name, fn) {
  const key = `lock:${name}`;
  for (let i = 0; (await redis.eval(LOCK, 1, key, OWNER, 20000)) !== 1; i++) {
    if (i === 30) throw Object.assign(new Error("locked"), { statusCode: 429 });
    await new Promise((r) => setTimeout(r, 50 + Math.random() * 50));
  }
  try {
    return await fn();
  } finally {
    await redis.eval(UNLOCK, 1, key, OWNER).catch((err) => fastify.log.warn(err));
  }
}

// weighted average purchase price, so it needs read - compute - write
fastify.post("/products/:id/restock", async (req) => {
  const { quantity, unitPrice } = req.body;
  if (!(quantity > 0) || !(unitPrice >= 0)) throw Object.assign(new Error("bad input"), { statusCode: 400 });

  return withLock(`product:${req.params.id}`, async () => {
    const { rows } = await pool.query("SELECT stock, avg_price FROM products WHERE id = $1", [req.params.id]);
    if (!rows.length) throw Object.assign(new Error("not found"), { statusCode: 404 });

    const stock = rows[0].stock + quantity;
    const avgPrice = (rows[0].stock * Number(rows[0].avg_price) + quantity * unitPrice) / stock;
    await pool.query("UPDATE products SET stock = $2, avg_price = $3 WHERE id = $1", [req.params.id, stock, avgPrice]);
    return { stock, avgPrice };
  });
});

fastify.listen({ port: 3000, host: "0.0.0.0" });
