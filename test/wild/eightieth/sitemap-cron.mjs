import cron from 'node-cron';
import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import pg from 'pg';
import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';

const nodes = process.env.LOCK_REDIS.split(',').map((url) => new Redis(url));
const redlock = new Redlock(nodes, { retryCount: 0, automaticExtensionThreshold: 10_000 });
redlock.on('error', (err) => console.debug('redlock:', err.message));

const db = new pg.Pool({ statement_timeout: 20_000 });
const s3 = new S3Client({});
const Bucket = process.env.SITEMAP_BUCKET;
const SITE = 'https://shop.example.com';
const PER_FILE = 40_000;

function urlset(rows) {
  const body = rows
    .map((r) => `<url><loc>${SITE}/p/${encodeURIComponent(r.slug)}</loc><lastmod>${r.updated_at.toISOString()}</lastmod></url>`)
    .join('');
  return `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">${body}</urlset>`;
}

function stopIfLost(signal) {
  if (signal.aborted) throw signal.error ?? new Error('lock lost');
}

async function put(Key, Body, abortSignal) {
  await s3.send(new PutObjectCommand({ Bucket, Key, Body, ContentType: 'application/xml' }), { abortSignal });
}

async function build(signal) {
  const version = Date.now().toString(36);
  const files = [];
  let after = 0;
  for (;;) {
    stopIfLost(signal);
    const { rows } = await db.query(
      'SELECT id, slug, updated_at FROM products WHERE id > $1 AND visible ORDER BY id LIMIT $2',
      [after, PER_FILE],
    );
    if (!rows.length) break;
    after = rows.at(-1).id;
    const name = `sitemaps/${version}/${files.length}.xml`;
    await put(name, urlset(rows), signal);
    files.push(name);
  }
  const index = `<?xml version="1.0" encoding="UTF-8"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">${files
    .map((f) => `<sitemap><loc>${SITE}/${f}</loc></sitemap>`)
    .join('')}</sitemapindex>`;
  stopIfLost(signal);
  await put('sitemap.xml', index, signal);
  return files.length;
}

cron.schedule('15 */6 * * *', async () => {
  try {
    await redlock.using(['job:sitemap'], 45_000, async (signal) => {
      const n = await build(signal);
      console.log(`sitemap: ${n} files`);
    });
  } catch (err) {
    if (err instanceof ExecutionError) console.log('sitemap: skipped, lock not had:', err.message);
    else console.error('sitemap failed', err);
  }
});
