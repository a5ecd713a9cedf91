import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'
import pg from 'pg'

const redis = new Redis(process.env.REDIS_URL)
const pool = new pg.Pool({ query_timeout: 4_000, statement_timeout: 4_000, connectionTimeoutMillis: 2_000 })

redis.defineCommand('enter', {
  numberOfKeys: 1,
  lua: `
    local owner = redis.call('hget', KEYS[1], 'owner')
    if owner and owner ~= ARGV[1] then return 0 end
    redis.call('hset', KEYS[1], 'owner', ARGV[1])
    redis.call('hincrby', KEYS[1], 'depth', 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1`,
})

redis.defineCommand('leave', {
  numberOfKeys: 1,
  lua: `
    if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return -1 end
    local depth = redis.call('hincrby', KEYS[1], 'depth', -1)
    if depth <= 0 then redis.call('del', KEYS[1]) end
    return depth`,
})

const who = new AsyncLocalStorage()
const asOwner = (fn) => (who.getStore() ? fn(who.getStore()) : who.run(randomUUID(), () => fn(who.getStore())))

const TTL = 60_000
const PATIENCE = 10_000

export const locked = (keyOf) => (fn) => (...args) =>
  asOwner(async (owner) => {
    const key = `mutex:${keyOf(...args)}`
    const giveUp = Date.now() + PATIENCE
    while (!(await redis.enter(key, owner, TTL))) {
      if (Date.now() > giveUp) throw new Error(`${key} is busy`)
      await sleep(40 + Math.random() * 80)
    }
    try {
      return await fn(...args)
    } finally {
      await redis.leave(key, owner).then(
        (n) => n < 0 && console.warn('%s was no longer ours', key),
        (err) => console.warn('%s not left: %s', key, err.message),
      )
    }
  })

const byOrder = locked((id) => `order:${id}`)

const load = async (id) => {
  const { rows } = await pool.query('select id, discount, total, version from orders where id = $1', [id])
  if (!rows.length) throw new Error(`no order ${id}`)
  return rows[0]
}

const save = async ({ id, discount, total, version }) => {
  const { rowCount } = await pool.query(
    'update orders set discount = $2, total = $3, version = version + 1 where id = $1 and version = $4',
    [id, discount, total, version],
  )
  if (!rowCount) throw new Error(`order ${id} moved on from version ${version}`)
}

export const recalculate = byOrder(async (id) => {
  const order = await load(id)
  const { rows } = await pool.query('select coalesce(sum(qty * price), 0)::int as sum from lines where order_id = $1', [id])
  await save({ ...order, total: Math.max(0, rows[0].sum - order.discount) })
})

export const applyDiscount = byOrder(async (id, discount) => {
  const order = await load(id)
  await save({ ...order, discount })
  await recalculate(id)
})
