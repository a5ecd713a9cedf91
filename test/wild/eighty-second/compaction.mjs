import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

const unlock = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

const timeout = (ms) => {
  let timer
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`gave up after ${ms} ms`)), ms)
  })
  return { promise, clear: () => clearTimeout(timer) }
}

const mutex = (client) => (ttl) => (name) => async (fn) => {
  const key = `mutex:${name}`
  const token = randomUUID()
  if (!(await client.set(key, token, { NX: true, PX: ttl }))) return { ran: false }
  const limit = timeout(ttl * 0.8)
  try {
    return { ran: true, value: await Promise.race([fn(), limit.promise]) }
  } finally {
    limit.clear()
    await client.eval(unlock, { keys: [key], arguments: [token] })
  }
}

const merged = (segments) => ({
  id: randomUUID(),
  terms: segments.flatMap((s) => s.terms).sort((a, b) => (a.term < b.term ? -1 : 1)),
})

const compact = (store) => async () => {
  const small = (await store.list()).filter((s) => s.bytes < 4e6)
  if (small.length < 2) return 0
  const segments = []
  for (const { id } of small) segments.push(await store.read(id))
  const next = merged(segments)
  await store.write(next)
  for (const { id } of small) await store.remove(id)
  return small.length
}

export const compactor = async (url, store) => {
  const client = await createClient({ url }).on('error', console.error).connect()
  const once = mutex(client)(60_000)('segments')
  const work = compact(store)

  const timer = setInterval(
    () =>
      once(work).then(
        ({ ran, value }) => ran && console.log('%d segments compacted', value),
        (err) => console.error('compaction: %s', err.message),
      ),
    30_000,
  )

  return async () => {
    clearInterval(timer)
    await client.close()
  }
}
