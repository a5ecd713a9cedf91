import { randomUUID } from 'node:crypto'
import { appendFile, truncate } from 'node:fs/promises'
import { createClient } from 'redis'

const LOCK_TTL_MS = 60_000
const EXPORT_LIMIT_MS = 45_000
const PAGE_SIZE = 500

const client = createClient({ url: process.env.REDIS_URL })
client.on('error', (err) => console.error('survey export redis', err))

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`

export class ExportTimeoutError extends Error {
  constructor(surveyId: string) {
    super(`export of survey ${surveyId} took longer than ${EXPORT_LIMIT_MS}ms`)
  }
}

export interface Answer {
  respondentId: string
  question: string
  value: string
}

export interface Answers {
  page(surveyId: string, offset: number, limit: number): Promise<Answer[]>
}

/** Resolves to null if the survey is already being exported. */
async function withExportLock<T>(surveyId: string, work: () => Promise<T>): Promise<T | null> {
  const key = `survey:${surveyId}:export-lock`
  const token = randomUUID()
  const acquired = await client.set(key, token, { NX: true, PX: LOCK_TTL_MS })
  if (acquired !== 'OK') return null

  // The limit is below the ttl, so that an export never outlives its lock.
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ExportTimeoutError(surveyId)), EXPORT_LIMIT_MS)
  })

  try {
    return await Promise.race([work(), limit])
  } finally {
    clearTimeout(timer)
    await client
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`${key} not released`, err))
  }
}

const csv = (value: string) => `"${value.replaceAll('"', '""')}"`

/**
 * Appends the answers that came in since the last export to the CSV file of the survey on
 * the shared volume. Redis keeps how far it got; whatever an interrupted export wrote
 * beyond that is cut off before the next one goes on.
 */
export async function exportSurvey(surveyId: string, answers: Answers): Promise<number | null> {
  if (!client.isOpen) await client.connect()
  const progressKey = `survey:${surveyId}:export-progress`
  const file = `${process.env.EXPORT_DIR ?? '/exports'}/${encodeURIComponent(surveyId)}.csv`

  return withExportLock(surveyId, async () => {
    const saved = await client.get(progressKey)
    let { offset, bytes } = saved ? JSON.parse(saved) : { offset: 0, bytes: 0 }
    await appendFile(file, '')
    await truncate(file, bytes)
    let exported = 0
    for (;;) {
      const page = await answers.page(surveyId, offset, PAGE_SIZE)
      if (page.length === 0) return exported

      const lines = page.map((a) => [a.respondentId, a.question, a.value].map(csv).join(','))
      const chunk = Buffer.from(lines.join('\n') + '\n')
      await appendFile(file, chunk)
      offset += page.length
      bytes += chunk.length
      exported += page.length
      await client.set(progressKey, JSON.stringify({ offset, bytes }))
    }
  })
}
