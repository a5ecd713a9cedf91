'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { z } = require('zod');

const LOCK_TTL = 120 * 1000;
const SUPPLIER_TIMEOUT = 15 * 1000;
const MAX_PAGES = 5;

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 100,
});

redlock.on('clientError', (err) => {
  console.error('[catalog] redis error', err.message);
});

const Product = z.object({
  sku: z.string().min(1),
  title: z.string(),
  priceCents: z.number().int().nonnegative(),
  available: z.number().int(),
});

/**
 * Runs `task` while holding the lock on a supplier. The lock lives for two minutes, which
 * covers the most pages we fetch in one go.
 */
async function withSupplierLock(supplierId, task) {
  const lock = await redlock.lock(`locks:supplier:${supplierId}`, LOCK_TTL);
  try {
    return task(lock);
  } finally {
    try {
      await lock.unlock();
    } catch (err) {
      console.warn('[catalog] unlock failed, lock will expire', supplierId, err.message);
    }
  }
}

async function fetchPage(supplier, page) {
  const url = new URL('/v2/products', supplier.baseUrl);
  url.searchParams.set('page', String(page));
  const res = await fetch(url, {
    headers: { 'x-api-key': supplier.apiKey },
    signal: AbortSignal.timeout(SUPPLIER_TIMEOUT),
  });
  if (!res.ok) throw new Error(`supplier ${supplier.id} answered ${res.status}`);
  const body = await res.json();
  return { items: z.array(Product).parse(body.items), last: Boolean(body.last) };
}

async function readCatalog(supplierId) {
  const raw = await redis.get(`catalog:${supplierId}`);
  return raw ? JSON.parse(raw) : { revision: 0, products: {} };
}

async function writeCatalog(supplierId, catalog) {
  catalog.revision += 1;
  catalog.updatedAt = new Date().toISOString();
  await redis.set(`catalog:${supplierId}`, JSON.stringify(catalog));
}

async function syncSupplier(supplier) {
  return withSupplierLock(supplier.id, async () => {
    const catalog = await readCatalog(supplier.id);
    let changed = 0;
    for (let page = 1; page <= MAX_PAGES; page++) {
      const { items, last } = await fetchPage(supplier, page);
      for (const item of items) {
        const old = catalog.products[item.sku];
        if (!old || old.priceCents !== item.priceCents || old.available !== item.available) {
          catalog.products[item.sku] = { ...old, ...item };
          changed++;
        }
      }
      if (last) break;
    }
    if (changed > 0) await writeCatalog(supplier.id, catalog);
    return changed;
  });
}

// Price corrections from the back office, may come in while a sync is under way.
async function overridePrice(supplierId, sku, priceCents, reason) {
  return withSupplierLock(supplierId, async () => {
    const catalog = await readCatalog(supplierId);
    const product = catalog.products[sku];
    if (!product) throw new Error(`no product ${sku} from ${supplierId}`);
    product.override = { priceCents, reason, at: new Date().toISOString() };
    await writeCatalog(supplierId, catalog);
    return product;
  });
}

async function syncAll(suppliers) {
  const results = await Promise.allSettled(suppliers.map((s) => syncSupplier(s)));
  results.forEach((r, i) => {
    if (r.status === 'rejected') console.error('[catalog] sync failed', suppliers[i].id, r.reason.message);
    else console.log('[catalog] synced', suppliers[i].id, r.value, 'changes');
  });
}

module.exports = { syncSupplier, syncAll, overridePrice, withSupplierLock, redis };
