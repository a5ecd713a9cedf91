import express, { type NextFunction, type Request, type Response } from "express";
import Redis from "ioredis";
import { Pool } from "pg";
import Redlock, { ExecutionError } from "redlock5";

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  query_timeout: 3_000,
});

const redlock = new Redlock(
  [process.env.REDIS_1!, process.env.REDIS_2!, process.env.REDIS_3!].map(
    (url) => new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 }),
  ),
  { driftFactor: 0.01, retryCount: 15, retryDelay: 150, retryJitter: 100 },
);
redlock.on("error", (err) => console.error("redlock:", err.message));

interface Wallet {
  id: string;
  ownerId: string;
  balance: number; // cents
  frozen: boolean;
}

async function loadWallet(id: string): Promise<Wallet | null> {
  const { rows } = await pool.query(
    `SELECT id, owner_id AS "ownerId", balance::int AS balance, frozen FROM wallets WHERE id = $1`,
    [id],
  );
  return rows[0] ?? null;
}

async function saveWithdrawal(walletId: string, amount: number, balance: number): Promise<void> {
  const db = await pool.connect();
  try {
    await db.query("BEGIN");
    await db.query("UPDATE wallets SET balance = $2 WHERE id = $1", [walletId, balance]);
    await db.query("INSERT INTO withdrawals (wallet_id, amount) VALUES ($1, $2)", [walletId, amount]);
    await db.query("COMMIT");
  } catch (err) {
    await db.query("ROLLBACK").catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

export const app = express();
app.use(express.json());

app.post("/wallets/:id/withdraw", async (req: Request, res: Response, next: NextFunction) => {
  try {
    const amount = Number(req.body?.amount);
    if (!Number.isInteger(amount) || amount <= 0) return res.status(400).json({ error: "bad amount" });

    const wallet = await loadWallet(req.params.id);
    if (!wallet) return res.status(404).json({ error: "no such wallet" });
    if (wallet.ownerId !== req.header("x-user-id")) return res.status(403).json({ error: "not your wallet" });
    if (wallet.frozen) return res.status(423).json({ error: "wallet is frozen" });

    const lock = await redlock.acquire([`locks:wallet:${wallet.id}`], 30_000);
    try {
      if (wallet.balance < amount) return res.status(422).json({ error: "insufficient funds" });

      const balance = wallet.balance - amount;
      await saveWithdrawal(wallet.id, amount, balance);
      return res.json({ balance });
    } finally {
      await lock.release().catch((err) => console.warn("release:", err.message));
    }
  } catch (err) {
    if (err instanceof ExecutionError) return res.status(429).json({ error: "wallet is busy" });
    return next(err);
  }
});

app.use((err: Error, _req: Request, res: Response, _next: NextFunction) => {
  console.error(err);
  if (!res.headersSent) res.status(500).json({ error: "internal error" });
});

if (require.main === module) app.listen(Number(process.env.PORT ?? 8080));
