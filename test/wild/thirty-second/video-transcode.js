'use strict'

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')
const Redis = require('ioredis')
const Redlock = require('redlock4')

const redis = new Redis(process.env.REDIS_URL)
const redlock = new Redlock([redis], { retryCount: 0 })
redlock.on('clientError', (err) => console.error('redlock client error', err))

const LOCK_TTL = 30 * 1000

async function ffmpeg(input, output) {
  const child = spawn('ffmpeg', ['-y', '-i', input, '-c:v', 'libx264', '-preset', 'slow', '-crf', '21', output], {
    stdio: 'ignore',
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`ffmpeg exited with ${code} for ${input}`)
}

/**
 * Transcodes an upload (up to a few hours of footage) for the web player.
 * On 'busy' the consumer puts the message back in the queue for later.
 * @param {string} videoId
 * @param {{ get(id: string): Promise<any>, update(id: string, fields: object): Promise<void> }} videos
 */
async function transcode(videoId, videos) {
  let lock
  try {
    lock = await redlock.lock(`locks:transcode:${videoId}`, LOCK_TTL)
  } catch (err) {
    if (err instanceof Redlock.LockError) return 'busy'
    throw err
  }

  try {
    const video = await videos.get(videoId)
    if (video.status === 'ready') return 'ready'

    const output = path.join(process.env.MEDIA_DIR, `${videoId}.mp4`)
    await ffmpeg(video.source, output)
    await videos.update(videoId, { status: 'ready', output, transcodedAt: new Date() })
    return 'ready'
  } finally {
    await lock.unlock().catch((err) => console.warn(`unlock of ${videoId} failed: ${err.message}`))
  }
}

module.exports = { transcode }
