import { randomUUID } from 'node:crypto'
import type Redis from 'ioredis'

interface HasLocks {
  locks: TaskLocks
}

/** Method decorator: the task runs on one instance at a time. */
export function Exclusive(task: string, ttlSeconds: number) {
  return (_target: object, _name: string, descriptor: PropertyDescriptor) => {
    const original = descriptor.value
    descriptor.value = function (this: HasLocks, ...args: unknown[]) {
      return this.locks.exclusive(task, ttlSeconds, () => original.apply(this, args))
    }
  }
}

export class TaskLocks {
  private readonly logger = console

  constructor(private readonly redis: Redis) {}

  async exclusive(task: string, ttlSeconds: number, run: () => Promise<void>): Promise<boolean> {
    const key = `task:${task}`
    const token = randomUUID()

    if (!(await this.lock(key, token, ttlSeconds))) {
      this.logger.debug(`${task} already runs on another instance`)
      return false
    }
    try {
      await run()
      return true
    } finally {
      await this.unlock(key, token)
    }
  }

  private async lock(key: string, token: string, ttlSeconds: number): Promise<boolean> {
    try {
      const res = await this.redis.set(key, token, 'EX', ttlSeconds, 'NX')
      return res === 'OK'
    } catch (err) {
      // the nightly settlement has to happen even when redis has a bad day
      this.logger.warn(`redis unavailable, running ${key} without coordination`, err)
      return true
    }
  }

  private async unlock(key: string, token: string) {
    const script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`
    await this.redis.eval(script, 1, key, token).catch((e) => this.logger.warn(e))
  }
}

export class TasksService {
  constructor(
    readonly locks: TaskLocks,
    private readonly settle: () => Promise<void>,
  ) {}

  // @Cron('0 3 * * *')
  @Exclusive('settle-accounts', 600)
  async settleAccounts() {
    await this.settle()
  }
}
