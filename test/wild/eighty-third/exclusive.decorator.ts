import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import Redis from 'ioredis';
import Redlock, { type RedlockAbortSignal } from 'redlock5';

const redlock = new Redlock([new Redis(process.env.REDIS_URL!)], {
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 100,
  automaticExtensionThreshold: 4_000,
});
redlock.on('error', () => undefined); // failures reach the caller as rejections

const held = new AsyncLocalStorage<RedlockAbortSignal>();

/** Throws when the lock around the current call could not be prolonged. */
export function assertHeld(): void {
  const signal = held.getStore();
  if (!signal) throw new Error('not inside an @Exclusive method');
  if (signal.aborted) throw signal.error ?? new Error('lock lost');
}

export function Exclusive<A extends unknown[]>(keyOf: (...args: A) => string, ms = 15_000) {
  return <R>(
    _target: object,
    _name: string | symbol,
    desc: TypedPropertyDescriptor<(...args: A) => Promise<R>>,
  ): void => {
    const inner = desc.value!;
    desc.value = function (this: unknown, ...args: A): Promise<R> {
      return redlock.using([`exclusive:${keyOf(...args)}`], ms, (signal) =>
        held.run(signal, () => inner.apply(this, args)),
      );
    };
  };
}

@Injectable()
export class CourseGrades {
  constructor(private readonly db: DataSource) {}

  @Exclusive((courseId: string) => `grades:${courseId}`)
  async recompute(courseId: string): Promise<number> {
    const students: { id: string; version: number }[] = await this.db.query(
      'select student_id as id, version from enrolments where course_id = $1',
      [courseId],
    );
    let changed = 0;
    for (const s of students) {
      assertHeld();
      const rows: unknown[] = await this.db.query(
        `with upd as (
           update enrolments e
              set grade = (select sum(score * weight) / nullif(sum(weight), 0) from submissions
                            where course_id = $1 and student_id = $2),
                  version = version + 1
            where e.course_id = $1 and e.student_id = $2 and e.version = $3
            returning e.student_id)
         select * from upd`,
        [courseId, s.id, s.version],
      );
      changed += rows.length;
    }
    return changed;
  }
}
