"use strict";

// Started by crontab at 02:00 on every web host; one of them builds the sitemap.
const { randomUUID } = require("node:crypto");
const { createClient } = require("redis");

const LOCK_KEY = "cron:sitemap:lock";
const LAST_RUN_KEY = "cron:sitemap:last";
const LOCK_TTL_SECONDS = 15 * 60;
const WORK_SECONDS = LOCK_TTL_SECONDS - 120;

const RELEASE_SCRIPT = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

async function collectUrls(signal) {
  const urls = [];
  let cursor = "";
  do {
    const res = await fetch(`${process.env.CATALOG_API}/pages?after=${encodeURIComponent(cursor)}`, { signal });
    if (!res.ok) throw new Error(`catalog answered ${res.status}`);
    const page = await res.json();
    urls.push(...page.urls);
    cursor = page.next ?? "";
  } while (cursor);
  return urls;
}

async function upload(urls, signal) {
  const xml =
    '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n' +
    urls.map((u) => `  <url><loc>${u}</loc></url>`).join("\n") +
    "\n</urlset>\n";
  const res = await fetch(`${process.env.STORAGE_URL}/sitemap.xml`, { method: "PUT", body: xml, signal });
  if (!res.ok) throw new Error(`storage answered ${res.status}`);
}

async function buildSitemapOnce(client, day) {
  const token = randomUUID();
  const signal = AbortSignal.timeout(WORK_SECONDS * 1000);

  const acquired = await client.set(LOCK_KEY, token, { NX: true, PX: LOCK_TTL_SECONDS });
  if (acquired !== "OK") return "another host is on it";

  try {
    if ((await client.get(LAST_RUN_KEY)) === day) return "already built";
    const urls = await collectUrls(signal);
    await upload(urls, signal);
    await client.set(LAST_RUN_KEY, day);
    return `built with ${urls.length} urls`;
  } finally {
    await client
      .eval(RELEASE_SCRIPT, { keys: [LOCK_KEY], arguments: [token] })
      .catch((err) => console.warn("sitemap lock not released", err));
  }
}

async function main() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on("error", (err) => console.error("redis:", err.message));
  await client.connect();
  try {
    const day = new Date().toISOString().slice(0, 10);
    console.log("sitemap:", await buildSitemapOnce(client, day));
  } finally {
    await client.quit();
  }
}

if (require.main === module) {
  main().catch((err) => {
    console.error(err);
    process.exitCode = 1;
  });
}

module.exports = { buildSitemapOnce };
