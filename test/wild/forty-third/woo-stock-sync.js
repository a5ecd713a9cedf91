// Sync stock from the warehouse API to WooCommerce.
// Called by a webhook AND every 5 minutes by cron, so we need a lock: if two syncs run together
// the slow one puts its old numbers over the new numbers of the other one.
const crypto = require('crypto');
const { createClient } = require('redis');
const WooCommerceRestApi = require('@woocommerce/woocommerce-rest-api').default;

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.log('Redis error', err));

const woo = new WooCommerceRestApi({
  url: process.env.SHOP_URL,
  consumerKey: process.env.WOO_KEY,
  consumerSecret: process.env.WOO_SECRET,
  version: 'wc/v3',
  timeout: 10000,
});

const LOCK_KEY = 'lock:stock-sync';
const LOCK_SECONDS = 300;
const MAX_RUN_MS = 4 * 60 * 1000;

async function lock() {
  const token = crypto.randomBytes(16).toString('hex');
  const ok = await client.set(LOCK_KEY, token, 'NX', 'EX', LOCK_SECONDS);
  return ok === 'OK' ? token : null;
}

async function unlock(token) {
  // only delete if it is still our lock (from the redis docs)
  const script =
    'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';
  await client.eval(script, { keys: [LOCK_KEY], arguments: [token] });
}

async function getStock() {
  const res = await fetch(process.env.WAREHOUSE_URL + '/stock', {
    headers: { 'x-api-key': process.env.WAREHOUSE_KEY },
    signal: AbortSignal.timeout(10000),
  });
  if (!res.ok) throw new Error('warehouse ' + res.status);
  return res.json();
}

async function syncStock() {
  if (!client.isOpen) await client.connect();

  const token = await lock();
  if (!token) {
    console.log('sync is already running');
    return false;
  }

  const started = Date.now();
  try {
    const stock = await getStock();
    for (const item of stock) {
      if (Date.now() - started > MAX_RUN_MS) throw new Error('sync takes too long, stopping');
      await woo.put('products/' + item.productId, { stock_quantity: item.quantity });
    }
    return true;
  } finally {
    await unlock(token);
  }
}

module.exports = { syncStock };
