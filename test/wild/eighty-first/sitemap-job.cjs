const Redis = require('ioredis');
const Redlock = require('redlock4');
const { CronJob } = require('cron');
const { Storage } = require('@google-cloud/storage');
const { SitemapStream, streamToPromise } = require('sitemap');
const knex = require('knex')({ client: 'pg', connection: process.env.DATABASE_URL });

const config = {
  bucket: process.env.SITEMAP_BUCKET || 'www-sitemaps',
  schedule: process.env.SITEMAP_SCHEDULE || '0 15 * * * *',
  lockTtl: Number(process.env.SITEMAP_LOCK_SECONDS || 300),
  queryTimeout: 60 * 1000,
};

const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 0 });
redlock.on('clientError', (err) => console.error('[sitemap] redis', err.message));
const bucket = new Storage().bucket(config.bucket);

async function buildSitemap() {
  const rows = await knex('articles')
    .select('slug', 'updated_at')
    .where({ published: true })
    .orderBy('updated_at', 'desc')
    .limit(50000)
    .timeout(config.queryTimeout, { cancel: true });

  const stream = new SitemapStream({ hostname: 'https://www.example.com' });
  for (const row of rows) stream.write({ url: `/a/${row.slug}`, lastmod: row.updated_at.toISOString() });
  stream.end();
  const xml = await streamToPromise(stream);

  const [, previous] = await Promise.all([
    bucket.file('sitemap.next.xml').save(xml, { contentType: 'application/xml', timeout: 60000 }),
    bucket.file('sitemap.xml').exists(),
  ]);
  if (previous[0]) await bucket.file('sitemap.xml').move('sitemap.prev.xml');
  await bucket.file('sitemap.next.xml').move('sitemap.xml');
  return rows.length;
}

async function tick() {
  let lock;
  try {
    lock = await redlock.lock('cron:sitemap', config.lockTtl);
  } catch (err) {
    if (err instanceof Redlock.LockError) return;
    throw err;
  }
  try {
    const count = await buildSitemap();
    console.log(`[sitemap] ${count} urls`);
  } finally {
    await lock.unlock().catch((err) => console.warn('[sitemap] unlock', err.message));
  }
}

const job = new CronJob(config.schedule, () => tick().catch((err) => console.error('[sitemap]', err)));
job.start();

module.exports = { tick };
