'use strict'

const Redis = require('ioredis')
const Redlock = require('redlock4')

const LEASE = 40000
const BATCH = 4

const nodes = (process.env.LOCK_NODES || 'redis://127.0.0.1:6379').split(',').map((url) => new Redis(url))

const redlock = new Redlock(nodes, { driftFactor: 0.01, retryCount: 8, retryDelay: 250, retryJitter: 120 })
redlock.on('clientError', (err) => console.warn('[redlock]', err.message))

const chunks = (size) => (list) =>
  list.length ? [list.slice(0, size), ...chunks(size)(list.slice(size))] : []

const render = (base) => async (photo) => {
  const res = await fetch(`${base}/render`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ source: photo.path, target: `thumbs/${photo.id}.webp`, width: 320 }),
    signal: AbortSignal.timeout(8000),
  })
  if (!res.ok) throw new Error(`photo ${photo.id}: HTTP ${res.status}`)
  await res.arrayBuffer()
  return photo.id
}

const settle = async (jobs) => {
  const results = await Promise.allSettled(jobs)
  const bad = results.filter((r) => r.status === 'rejected').map((r) => r.reason)
  if (bad.length) throw new AggregateError(bad, `${bad.length} renders failed`)
  return results.map((r) => r.value)
}

const regenerate = (base) => {
  const one = render(base)

  return async (album) => {
    let lock = await redlock.lock(`locks:album:${album.id}`, LEASE)
    const done = []
    try {
      for (const [i, batch] of chunks(BATCH)(album.photos).entries()) {
        if (i > 0) lock = await lock.extend(LEASE)
        done.push(...(await settle(batch.map(one))))
      }
      return done
    } finally {
      await lock.unlock().catch((err) => console.warn('album %s: %s', album.id, err.message))
    }
  }
}

module.exports = { regenerate, close: () => Promise.all(nodes.map((n) => n.quit())) }
