import { connect } from 'node:net'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const LOCK_MS = 120_000
const WORK_MS = 60_000
const TRACK_POINT = /<trkpt lat="([^"]+)" lon="([^"]+)"[\s\S]*?<time>([^<]+)/g
const RELEASE =
  "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"

/** Just enough RESP for this job, saves us a dependency in the edge image. */
export class TinyRedis {
  #buffer = ''
  #waiting = []

  constructor(host, port) {
    this.socket = connect({ host, port })
    this.socket.setEncoding('utf8')
    this.socket.setKeepAlive(true, 10_000)
    this.socket.on('data', (chunk) => {
      this.#buffer += chunk
      this.#drain()
    })
    this.socket.on('error', (err) => this.#fail(err))
    this.socket.on('close', () => this.#fail(new Error('redis connection closed')))
  }

  send(...args) {
    const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`)
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('redis connection closed'))
      this.#waiting.push({ resolve, reject })
      this.socket.write(`*${args.length}\r\n${parts.join('')}`)
    })
  }

  // status, error, integer and bulk replies; our values are ASCII
  #drain() {
    for (;;) {
      const eol = this.#buffer.indexOf('\r\n')
      if (eol < 0) return
      const type = this.#buffer[0]
      const head = this.#buffer.slice(1, eol)
      let end = eol + 2
      let value = head
      if (type === ':') value = Number(head)
      if (type === '$') {
        const length = Number(head)
        value = null
        if (length >= 0) {
          if (this.#buffer.length < end + length + 2) return
          value = this.#buffer.slice(end, end + length)
          end += length + 2
        }
      }
      this.#buffer = this.#buffer.slice(end)
      const call = this.#waiting.shift()
      if (type === '-') call?.reject(new Error(head))
      else call?.resolve(value)
    }
  }

  #fail(err) {
    for (const call of this.#waiting.splice(0)) call.reject(err)
  }
}

const readOrEmpty = (file) =>
  readFile(file, 'utf8').catch((err) => {
    if (err.code === 'ENOENT') return ''
    throw err
  })

async function importTracks(inbox, outDir, until) {
  await mkdir(join(inbox, 'done'), { recursive: true })
  let imported = 0
  for (const name of (await readdir(inbox)).filter((n) => n.endsWith('.gpx')).sort()) {
    if (performance.now() > until) break
    const xml = await readFile(join(inbox, name), 'utf8')
    const csv = join(outDir, `${name.split('_')[0]}.csv`)
    const points = new Set((await readOrEmpty(csv)).split('\n').filter(Boolean))
    for (const [, lat, lon, time] of xml.matchAll(TRACK_POINT)) points.add(`${time},${lat},${lon}`)
    await writeFile(`${csv}.tmp`, [...points].sort().join('\n') + '\n')
    await rename(`${csv}.tmp`, csv)
    await rename(join(inbox, name), join(inbox, 'done', name))
    imported++
  }
  return imported
}

export async function runImport(redis, { inbox, outDir, depot }) {
  const key = `gps-import:${depot}`
  const owner = randomUUID()
  const until = performance.now() + WORK_MS

  const reply = await redis.send('SET', key, owner, 'NX', 'PX', LOCK_MS)
  if (reply === 0) {
    console.log(`import for ${depot} is already running`)
    return 0
  }

  try {
    return await importTracks(inbox, outDir, until)
  } finally {
    await redis.send('EVAL', RELEASE, 1, key, owner).catch((err) => console.warn(err.message))
  }
}

export function fromEnv() {
  return new TinyRedis(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379))
}
