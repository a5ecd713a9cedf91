import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

const TTL_MS = 30_000
const STATEMENT_TIMEOUT_MS = 5_000

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`

export class TermLock {
  private key = ''
  private token = ''

  constructor(private readonly client: Client) {}

  async acquire(key: string, waitMs = 5_000): Promise<void> {
    const token = randomUUID()
    const until = Date.now() + waitMs
    while ((await this.client.set(key, token, { NX: true, PX: TTL_MS })) !== 'OK') {
      if (Date.now() > until) throw new Error(`${key} is locked by somebody else`)
      await sleep(100 + Math.random() * 100)
    }
    this.key = key
    this.token = token
  }

  async release(): Promise<void> {
    await this.client.eval(RELEASE, { keys: [this.key], arguments: [this.token] })
  }
}

interface HasLock {
  readonly lock: TermLock
}

/** Runs the decorated method under the lock of the term it is called for. */
function exclusivePerTerm<T extends HasLock, A extends [termId: string, ...rest: unknown[]], R>(
  method: (this: T, ...args: A) => Promise<R>,
  _context: ClassMethodDecoratorContext,
) {
  return async function (this: T, ...args: A): Promise<R> {
    await this.lock.acquire(`timetable:${args[0]}:lock`)
    try {
      return await method.apply(this, args)
    } finally {
      await this.lock.release()
    }
  }
}

export interface Lesson {
  id: string
  teacher: string
  room: string
  period: number
}

export interface LessonRepo {
  all(termId: string, opts: { timeoutMs: number }): Promise<Lesson[]>
  upsert(termId: string, lesson: Lesson, opts: { timeoutMs: number }): Promise<void>
}

/** One instance per process, shared by all requests. */
export class TimetableService implements HasLock {
  readonly lock: TermLock

  constructor(client: Client, private readonly lessons: LessonRepo) {
    this.lock = new TermLock(client)
  }

  @exclusivePerTerm
  async place(termId: string, lesson: Lesson): Promise<void> {
    const placed = await this.lessons.all(termId, { timeoutMs: STATEMENT_TIMEOUT_MS })
    const clash = placed.find(
      (other) =>
        other.id !== lesson.id &&
        other.period === lesson.period &&
        (other.room === lesson.room || other.teacher === lesson.teacher),
    )
    if (clash) throw new Error(`period ${lesson.period} clashes with lesson ${clash.id}`)
    await this.lessons.upsert(termId, lesson, { timeoutMs: STATEMENT_TIMEOUT_MS })
  }
}
