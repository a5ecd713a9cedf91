import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import type { Redis } from "ioredis";
import type { Pool } from "pg";

const LOCK_MS = 60_000;
const WAIT_MS = 4_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface ReserveBody {
  sku: string;
  quantity: number;
  orderId: string;
}

async function lock(redis: Redis, key: string): Promise<string | null> {
  const token = randomUUID();
  const until = Date.now() + WAIT_MS;
  do {
    if ((await redis.set(key, token, "PX", LOCK_MS, "NX")) === "OK") return token;
    await sleep(50 + Math.random() * 100);
  } while (Date.now() < until);
  return null;
}

export function reserveRoutes(app: FastifyInstance, redis: Redis, pool: Pool): void {
  app.post<{ Body: ReserveBody }>("/reservations", async (request, reply) => {
    const { sku, quantity, orderId } = request.body;
    if (!Number.isInteger(quantity) || quantity < 1) {
      return reply.code(400).send({ error: "quantity must be a positive integer" });
    }

    const found = await pool.query(
      "SELECT id, available, max_per_order FROM products WHERE sku = $1 AND active",
      [sku],
    );
    const product = found.rows[0];
    if (!product) return reply.code(404).send({ error: "unknown product" });
    if (quantity > product.max_per_order) {
      return reply.code(422).send({ error: `at most ${product.max_per_order} per order` });
    }

    const key = `stock:${product.id}`;
    const token = await lock(redis, key);
    if (!token) return reply.code(503).header("retry-after", "2").send({ error: "busy" });

    try {
      if (product.available < quantity) {
        return reply.code(409).send({ error: "not enough stock" });
      }
      const db = await pool.connect();
      try {
        await db.query("BEGIN");
        await db.query("SET LOCAL statement_timeout = 5000");
        await db.query("INSERT INTO reservations (order_id, product_id, quantity) VALUES ($1, $2, $3)", [
          orderId,
          product.id,
          quantity,
        ]);
        await db.query("UPDATE products SET available = $2 WHERE id = $1", [
          product.id,
          product.available - quantity,
        ]);
        await db.query("COMMIT");
      } catch (err) {
        await db.query("ROLLBACK").catch(() => undefined);
        throw err;
      } finally {
        db.release();
      }
      return reply.code(201).send({ orderId, sku, quantity });
    } finally {
      await redis
        .eval(UNLOCK, 1, key, token)
        .catch((err) => request.log.warn({ err, key }, "unlock failed"));
    }
  });
}
