import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379')

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

export class AlreadyRunningError extends Error {}

type Method<This, Args extends unknown[], T> = (this: This, ...args: Args) => Promise<T>

/** Decorator: calls of the method with the same first argument never run at once, whichever server they reach. */
export function Exclusive(prefix: string, ttlMs = 10_000) {
  return function decorate<This, Args extends unknown[], T>(
    method: Method<This, Args, T>,
    _context: ClassMethodDecoratorContext<This, Method<This, Args, T>>,
  ): Method<This, Args, T> {
    return async function locked(this: This, ...args: Args): Promise<T> {
      const key = `${prefix}:${String(args[0])}`
      if (await redis.exists(key)) throw new AlreadyRunningError(key)
      const token = randomUUID()
      await redis.set(key, token, 'PX', ttlMs)
      try {
        return await method.apply(this, args)
      } finally {
        await redis.eval(RELEASE, 1, key, token)
      }
    }
  }
}

export class SignupService {
  constructor(private readonly createAccount: (email: string) => Promise<void>) {}

  @Exclusive('signup')
  async signUp(email: string): Promise<void> {
    await this.createAccount(email)
  }
}
