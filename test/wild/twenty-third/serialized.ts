import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { createClient, WatchError } from 'redis'

type Client = ReturnType<typeof createClient>
type Ctor<T> = new (...args: any[]) => T

export interface PayoutService {
  /** Must stop, and reject, when the signal fires. */
  settle(merchantId: string, signal: AbortSignal): Promise<string>
}

const TTL = 10_000
const WORK = 9_000

/**
 * class Payouts implements PayoutService { ... }
 * const SafePayouts = Serialized(Payouts, client)
 *
 * One settlement per merchant at a time, across all pods.
 */
export function Serialized<B extends Ctor<PayoutService>>(Base: B, client: Client) {
  async function lock(key: string) {
    const token = randomUUID()
    for (let tries = 0; tries < 30; tries++) {
      const asked = performance.now()
      const reply = await client.set(key, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: TTL },
      })
      if (reply === 'OK') return { token, deadline: asked + WORK }
      await delay(100 + Math.random() * 200)
    }
    throw new Error(`${key} is busy`)
  }

  // The client's hosting does not allow EVAL, hence a transaction.
  async function unlock(key: string, token: string) {
    try {
      await client.watch(key)
      if ((await client.get(key)) === token) {
        await client.multi().del(key).exec()
      } else {
        await client.unwatch()
      }
    } catch (err) {
      // somebody touched the key in the meantime: not ours any more
      if (!(err instanceof WatchError)) throw err
    }
  }

  return class extends Base {
    async settle(merchantId: string, signal: AbortSignal): Promise<string> {
      const key = `settle:${merchantId}`
      const { token, deadline } = await lock(key)
      try {
        const left = Math.floor(deadline - performance.now())
        if (left < 500) throw new Error('no time left to settle')
        return await super.settle(merchantId, AbortSignal.any([signal, AbortSignal.timeout(left)]))
      } finally {
        await unlock(key, token).catch((err) => console.warn('unlock', key, err))
      }
    }
  }
}
