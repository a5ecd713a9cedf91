import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));

const LOCK_SECONDS = 180;
const PAGE = 1_000;

interface ProductPage {
  items: { slug: string; updatedAt: string }[];
  next: string | null;
}

export async function acquire(shop: string): Promise<boolean> {
  const reply = await redis.set(`sitemap:${shop}:lock`, new Date().toISOString(), {
    NX: true,
    EX: LOCK_SECONDS,
  });
  return reply === 'OK';
}

export async function release(shop: string): Promise<void> {
  await redis.del(`sitemap:${shop}:lock`);
}

async function fetchPage(shop: string, cursor: string | null): Promise<ProductPage> {
  const url = new URL(`/shops/${shop}/products`, process.env.CATALOGUE_URL);
  url.searchParams.set('limit', String(PAGE));
  if (cursor) url.searchParams.set('after', cursor);
  const res = await fetch(url, { signal: AbortSignal.timeout(20_000) });
  if (!res.ok) throw new Error(`catalogue answered ${res.status}`);
  return (await res.json()) as ProductPage;
}

async function writeSitemap(shop: string, host: string): Promise<number> {
  const dir = join('/srv/sitemaps', shop);
  await mkdir(dir, { recursive: true });
  const file = join(dir, 'products.xml');
  await writeFile(file, '<?xml version="1.0"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n');

  let count = 0;
  let cursor: string | null = null;
  do {
    const page: ProductPage = await fetchPage(shop, cursor);
    const lines = page.items.map(
      (p) => `<url><loc>https://${host}/p/${encodeURIComponent(p.slug)}</loc><lastmod>${p.updatedAt}</lastmod></url>`,
    );
    if (lines.length > 0) await appendFile(file, `${lines.join('\n')}\n`);
    count += lines.length;
    cursor = page.next;
  } while (cursor);

  await appendFile(file, '</urlset>\n');
  return count;
}

/** Called by the admin when products have changed, and by the nightly job for every shop. */
export async function rebuildSitemap(shop: string, host: string): Promise<'built' | 'busy'> {
  if (!redis.isOpen) await redis.connect();
  if (!(await acquire(shop))) return 'busy';
  try {
    const count = await writeSitemap(shop, host);
    console.info('sitemap of %s: %d products', shop, count);
    return 'built';
  } finally {
    await release(shop);
  }
}
