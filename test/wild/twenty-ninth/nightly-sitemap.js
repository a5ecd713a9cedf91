import { createClient } from 'redis';
import { hostname } from 'node:os';
import { writeFile, rename } from 'node:fs/promises';
import path from 'node:path';

// Every web pod runs this scheduler. At most one of them builds the sitemap each night.
// A failed night is reported and not retried: the old sitemap simply stays for a day.

const RUN_AT = { hour: 2, minute: 15 }; // UTC
const CLAIM_TTL_SECONDS = 36 * 60 * 60;

const log = (msg, extra = {}) =>
  console.log(JSON.stringify({ at: new Date().toISOString(), job: 'sitemap', msg, ...extra }));

function nextRun(now) {
  const next = new Date(now);
  next.setUTCHours(RUN_AT.hour, RUN_AT.minute, 0, 0);
  if (next <= now) next.setUTCDate(next.getUTCDate() + 1);
  return next;
}

export async function claimNight(client, night) {
  // The key stays after the run, on purpose: a pod that comes late must still see it.
  const reply = await client.set(`cron:sitemap:${night}`, `${hostname()}/${process.pid}`, {
    NX: true,
    EX: CLAIM_TTL_SECONDS,
  });
  return reply === 'OK';
}

export async function buildSitemap(listUrls, outDir, night) {
  const lines = ['<?xml version="1.0" encoding="UTF-8"?>',
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'];
  let count = 0;
  for await (const { loc, lastmod } of listUrls()) {
    lines.push(`<url><loc>${loc}</loc><lastmod>${lastmod}</lastmod></url>`);
    count += 1;
  }
  lines.push('</urlset>');

  const tmp = path.join(outDir, `.sitemap-${night}.xml`);
  await writeFile(tmp, lines.join('\n'));
  await rename(tmp, path.join(outDir, 'sitemap.xml'));
  return count;
}

export async function runNight(client, scheduledFor, { listUrls, outDir, alert }) {
  // Named after the planned time, not after the time at which this pod woke up.
  const night = scheduledFor.toISOString().slice(0, 10);

  let mine;
  try {
    mine = await claimNight(client, night);
  } catch (err) {
    log('redis unreachable, skipping', { night, err: err.message });
    return false;
  }
  if (!mine) {
    log('another pod has this night', { night });
    return false;
  }

  try {
    const count = await buildSitemap(listUrls, outDir, night);
    log('done', { night, count });
  } catch (err) {
    log('failed', { night, err: err.message });
    await alert(`sitemap for ${night} failed: ${err.message}`);
  }
  return true;
}

export async function startScheduler(deps) {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => log('redis error', { err: err.message }));
  await client.connect();

  const arm = (scheduledFor) => {
    setTimeout(async () => {
      try {
        await runNight(client, scheduledFor, deps);
      } catch (err) {
        log('unexpected', { err: err.message });
      } finally {
        arm(nextRun(new Date()));
      }
    }, Math.max(0, scheduledFor - Date.now()));
  };
  arm(nextRun(new Date()));
}
