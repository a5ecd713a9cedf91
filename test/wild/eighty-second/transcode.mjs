import { spawn } from 'node:child_process'
import { once } from 'node:events'
import Redis from 'ioredis'
import Redlock from 'redlock5'

const TTL = 30_000

const redlock = new Redlock(
  [process.env.REDIS_A, process.env.REDIS_B, process.env.REDIS_C].map((url) => new Redis(url)),
  { retryCount: 0, driftFactor: 0.01 },
)
redlock.on('error', (err) => console.debug('[redlock] %s', err.message))

const keepAlive = (lock, ttl) => {
  const timer = setInterval(() => {
    lock.extend(ttl).catch((err) => console.debug('[keepAlive] %s', err.message))
  }, ttl / 3)
  return () => clearInterval(timer)
}

const holding = (ttl) => (resource) => async (fn) => {
  const lock = await redlock.acquire([resource], ttl)
  const stop = keepAlive(lock, ttl)
  try {
    return await fn()
  } finally {
    stop()
    await lock.release().catch(() => {})
  }
}

const ffmpeg = async (...args) => {
  const child = spawn('ffmpeg', ['-y', '-loglevel', 'error', ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`ffmpeg left with ${code}`)
}

const ladder = [
  { height: 1080, rate: '5000k' },
  { height: 720, rate: '2800k' },
  { height: 480, rate: '1400k' },
]

export const transcode = ({ id, source, outDir }) =>
  holding(TTL)(`transcode:${id}`)(async () => {
    for (const { height, rate } of ladder) {
      await ffmpeg('-i', source, '-vf', `scale=-2:${height}`, '-b:v', rate, `${outDir}/${id}-${height}.mp4`)
    }
    return ladder.map(({ height }) => `${id}-${height}.mp4`)
  })
