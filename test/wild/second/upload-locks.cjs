const Redis = require('ioredis')
const { randomUUID } = require('crypto')

const redis = new Redis(process.env.REDIS_URL)

const LEASE = Number(process.env.UPLOAD_LEASE_MS) || 60000

// KEYS[1] lock, ARGV[1] lease, ARGV[2] owner
const ACQUIRE = `
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[1])
  return 1
end
return 0`

// KEYS[1] lock, ARGV[1] owner
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

async function acquire(uploadId) {
  const owner = randomUUID()
  const at = Date.now()
  const ok = await redis.eval(ACQUIRE, 1, `upload:${uploadId}`, LEASE, owner)
  return ok === 1 ? { uploadId, owner, until: at + LEASE - 500 } : null
}

async function release(lock) {
  await redis.eval(RELEASE, 1, `upload:${lock.uploadId}`, LEASE, lock.owner)
}

exports.acquire = acquire
exports.release = release
