import Redlock, { ExecutionError } from 'redlock5'
import { Redis } from 'ioredis'

// LOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379 (AOF with fsync always on each)
const nodes = (process.env.LOCK_NODES ?? '')
  .split(',')
  .filter(Boolean)
  .map((url) => new Redis(url, { commandTimeout: 800, maxRetriesPerRequest: 1 }))
if (nodes.length < 3) throw new Error('LOCK_NODES: need at least three')

const redlock = new Redlock(nodes, { driftFactor: 0.01, retryCount: 3, retryDelay: 200, retryJitter: 100 })
redlock.on('error', (err: Error) => console.warn('redlock:', err.message))

const queue = new Redis(process.env.QUEUE_URL ?? 'redis://localhost:6379')
const blocking = queue.duplicate()

const TODO = 'invoices:todo'
const MINE = `invoices:working:${process.env.WORKER_ID ?? 'worker-0'}` // stateful set name, unique
const LOCK_MS = 30_000
const RESERVE_MS = 3_000

type Invoice = { id: string; status: 'open' | 'billed'; version: number; lines: { cents: number }[] }

export interface Store {
  load(id: string, signal: AbortSignal): Promise<Invoice | null>
  /** UPDATE ... SET version = version + 1 WHERE id = ? AND version = ?; false if no row matched */
  bill(id: string, total: number, version: number, signal: AbortSignal): Promise<boolean>
}

async function handle(store: Store, id: string): Promise<'done' | 'again'> {
  let lock
  try {
    lock = await redlock.acquire([`invoice:${id}`], LOCK_MS)
  } catch (err) {
    if (!(err instanceof ExecutionError)) console.error('lock', id, err)
    return 'again'
  }

  try {
    const budget = Math.floor(lock.expiration - Date.now() - RESERVE_MS)
    if (budget <= 0) return 'again'
    const signal = AbortSignal.timeout(budget)

    const invoice = await store.load(id, signal)
    if (!invoice || invoice.status === 'billed') return 'done'

    const total = invoice.lines.reduce((sum, l) => sum + l.cents, 0)
    signal.throwIfAborted()
    // the version check is the backstop if this process was asleep since the line above
    return (await store.bill(id, total, invoice.version, signal)) ? 'done' : 'again'
  } catch (err) {
    console.error('invoice', id, err)
    return 'again'
  } finally {
    // rejects when it has expired already, which is fine
    await lock.release().catch(() => undefined)
  }
}

export async function consume(store: Store, quit: AbortSignal): Promise<void> {
  // what an earlier life of this worker left behind
  while (await queue.lmove(MINE, TODO, 'LEFT', 'RIGHT')) {
    /* until empty */
  }

  while (!quit.aborted) {
    const id = await blocking.blmove(TODO, MINE, 'LEFT', 'RIGHT', 5)
    if (!id) continue
    const outcome = await handle(store, id)
    const tx = queue.multi().lrem(MINE, 1, id)
    if (outcome === 'again') tx.rpush(TODO, id)
    await tx.exec()
  }
}
