const axios = require("axios");
const Redis = require("ioredis");
const Redlock = require("redlock4");
const { Pool } = require("pg");

const clients = process.env.REDIS_HOSTS.split(",").map(
  (host) => new Redis({ host, commandTimeout: 500, maxRetriesPerRequest: 1 })
);
clients.forEach((c) => c.on("error", (err) => console.error("redis", err.message)));

const redlock = new Redlock(clients, { driftFactor: 0.01, retryCount: 8, retryDelay: 250, retryJitter: 100 });
redlock.on("clientError", (err) => console.error("redlock", err.message));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2000,
  query_timeout: 4000,
});

async function payInvoice(invoiceId) {
  const lock = await redlock.lock(`locks:invoice:${invoiceId}`, 30000);
  try {
    const { rows } = await pool.query("SELECT id, amount, currency, customer, status FROM invoices WHERE id = $1", [
      invoiceId,
    ]);
    const invoice = rows[0];
    if (!invoice) throw new Error(`invoice ${invoiceId} not found`);
    if (invoice.status !== "open") return invoice;

    const { data: charge } = await axios.post(
      `${process.env.PSP_URL}/charges`,
      { amount: invoice.amount, currency: invoice.currency, customer: invoice.customer },
      {
        headers: { "Idempotency-Key": `invoice-${invoice.id}` },
        signal: AbortSignal.timeout(10000),
      }
    );

    await pool.query(
      "UPDATE invoices SET status = 'paid', charge_id = $2, paid_at = now() WHERE id = $1 AND status = 'open'",
      [invoice.id, charge.id]
    );
    return { ...invoice, status: "paid" };
  } finally {
    await lock.unlock().catch((err) => console.warn(`unlock invoice ${invoiceId}: ${err.message}`));
  }
}

module.exports = { payInvoice };
