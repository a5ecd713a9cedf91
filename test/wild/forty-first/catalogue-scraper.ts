import { randomBytes } from 'node:crypto';
import Redis from 'ioredis';
import axios from 'axios';
import * as cheerio from 'cheerio';
import mongoose, { Schema } from 'mongoose';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const Offer = mongoose.model(
  'Offer',
  new Schema({
    shop: String,
    sku: String,
    title: String,
    price: Number,
    seenAt: Date,
  }).index({ shop: 1, sku: 1 }, { unique: true }),
);

const LEASE_MS = 10 * 60_000;
const BUDGET_MS = 8 * 60_000; // the two minutes between are for the last page and its write
const MAX_PAGES = 400;

class ShopLease implements AsyncDisposable {
  private constructor(
    private readonly key: string,
    private readonly token: string,
  ) {}

  static async take(shop: string): Promise<ShopLease | null> {
    const key = `scrape:${shop}`;
    const token = randomBytes(16).toString('hex');
    const ok = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
    return ok === 'OK' ? new ShopLease(key, token) : null;
  }

  async [Symbol.asyncDispose]() {
    const lua = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
    try {
      await redis.eval(lua, 1, this.key, this.token);
    } catch (err) {
      console.warn(`could not give ${this.key} back`, err);
    }
  }
}

// shops ban us when two workers hit them at once
export async function scrapeShop(shop: string, baseUrl: string): Promise<number> {
  const signal = AbortSignal.timeout(BUDGET_MS);
  await using lease = await ShopLease.take(shop);
  if (!lease) {
    console.log(`${shop}: somebody is on it`);
    return 0;
  }

  let total = 0;

  for (let page = 1; page <= MAX_PAGES; page++) {
    signal.throwIfAborted();
    const { data } = await axios.get<string>(`${baseUrl}/catalogue?page=${page}`, { signal, timeout: 20_000 });
    const $ = cheerio.load(data);

    const ops = $('.product[data-sku]')
      .toArray()
      .map((el) => ({
        updateOne: {
          filter: { shop, sku: $(el).attr('data-sku') },
          update: {
            $set: {
              title: $(el).find('.title').text().trim(),
              price: Number($(el).find('.price').attr('data-amount')),
              seenAt: new Date(),
            },
          },
          upsert: true,
        },
      }));
    if (ops.length === 0) break;

    await Offer.bulkWrite(ops, { ordered: false });
    total += ops.length;
  }
  return total;
}

export async function connect() {
  await mongoose.connect(process.env.MONGO_URL!, { socketTimeoutMS: 30_000, serverSelectionTimeoutMS: 10_000 });
}
