import { randomUUID } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { createClient } from 'redis'

type Redis = ReturnType<typeof createClient>

interface Page {
  loc: string
  lastmod: string
}

export interface PageRepo {
  publicPages(site: string, opts: { signal: AbortSignal }): AsyncIterable<Page>
}

const RELEASE = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0`

interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string
  ttlMs: number
}

/**
 * Wraps a job so that only one process runs it per key. The job has to stop
 * when its signal fires, which happens at three quarters of the ttl.
 */
export function exclusive<A extends unknown[], R>(
  redis: Redis,
  { key: keyOf, ttlMs }: ExclusiveOptions<A>,
  job: (signal: AbortSignal, ...args: A) => Promise<R>,
): (...args: A) => Promise<R | undefined> {
  return async (...args) => {
    const key = `job:${keyOf(...args)}`
    const token = randomUUID()
    const signal = AbortSignal.timeout(Math.floor(ttlMs * 0.75))

    const reply = await redis.set(key, token, { NX: true, PX: ttlMs })
    if (reply !== 'OK') {
      console.info(`${key} runs elsewhere, skipped`)
      return undefined
    }

    try {
      return job(signal, ...args)
    } finally {
      try {
        await redis.eval(RELEASE, { keys: [key], arguments: [token] })
      } catch (err) {
        console.warn(`${key}: release failed, waiting for expiry`, err)
      }
    }
  }
}

const entry = ({ loc, lastmod }: Page) => `<url><loc>${loc}</loc><lastmod>${lastmod}</lastmod></url>\n`

export function createSitemapJob(redis: Redis, repo: PageRepo, publicDir: string) {
  return exclusive(
    redis,
    { key: (site: string) => `sitemap:${site}`, ttlMs: 4 * 60_000 },
    async (signal, site) => {
      let xml = '<?xml version="1.0" encoding="UTF-8"?>\n'
      xml += '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
      let count = 0
      for await (const page of repo.publicPages(site, { signal })) {
        signal.throwIfAborted()
        xml += entry(page)
        count++
      }
      xml += '</urlset>\n'

      const target = `${publicDir}/${site}/sitemap.xml`
      await writeFile(`${target}.new`, xml, { signal })
      signal.throwIfAborted()
      await rename(`${target}.new`, target)
      return count
    },
  )
}
