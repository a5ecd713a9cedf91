const { randomBytes } = require('node:crypto')

const unlockLua = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`

/**
 * const locker = createLocker([new Redis(a), new Redis(b), new Redis(c)])
 * const lock = await locker.acquire('report:42', 30000)
 * try { ... while (lock.valid()) ... } finally { await lock.release() }
 */
function createLocker(clients, { nodeTimeout = 120, retries = 12, baseDelay = 60 } = {}) {
  const quorum = Math.floor(clients.length / 2) + 1

  for (const c of clients) {
    if (!c.releaseLock) c.defineCommand('releaseLock', { numberOfKeys: 1, lua: unlockLua })
  }

  const timed = (p) =>
    new Promise((resolve) => {
      const t = setTimeout(resolve, nodeTimeout, null)
      p.then(
        (v) => { clearTimeout(t); resolve(v) },
        () => { clearTimeout(t); resolve(null) },
      )
    })

  const releaseAll = (key, id) => Promise.all(clients.map((c) => timed(c.releaseLock(key, id))))

  async function acquire(name, ttl) {
    const key = 'lock:' + name
    for (let n = 0; n < retries; n++) {
      if (n) await new Promise((r) => setTimeout(r, Math.random() * baseDelay * 2 ** Math.min(n, 5)))
      const id = randomBytes(18).toString('base64')
      const t0 = process.hrtime.bigint()
      const replies = await Promise.all(clients.map((c) => timed(c.set(key, id, 'PX', ttl, 'NX'))))
      const spent = () => Number(process.hrtime.bigint() - t0) / 1e6
      const usable = ttl - Math.ceil(ttl / 100) - 2
      if (replies.filter((r) => r === 'OK').length >= quorum && spent() < usable) {
        let open = true
        return {
          valid: () => open && spent() < usable,
          async release() {
            open = false
            const r = await releaseAll(key, id)
            return r.filter((x) => x === 1).length >= quorum
          },
        }
      }
      await releaseAll(key, id)
    }
    throw Object.assign(new Error(`${name} is locked by someone else`), { code: 'ELOCKED' })
  }

  return { acquire }
}

module.exports = createLocker
module.exports.createLocker = createLocker
