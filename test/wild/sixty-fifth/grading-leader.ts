import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import type { Logger } from '../logger';
import type { Database } from '../db';

const LEADER_KEY = '{grading}:leader';
const TERM_KEY = '{grading}:term';
const TTL_MS = 15_000;
const RENEW_MS = 3_000;
const SAFETY_MS = 3_000;

// Takes the seat and draws the term number in one step.
const CAMPAIGN = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RENEW = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;

const RESIGN = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

export interface Term {
  readonly number: number;
  readonly signal: AbortSignal;
  isCurrent(): boolean;
}

export type Duty = (term: Term) => Promise<void>;

export class GradingLeader {
  private readonly redis: Redis;
  private readonly log: Logger;
  private readonly duty: Duty;

  constructor(deps: { redis: Redis; log: Logger; duty: Duty }) {
    this.redis = deps.redis;
    this.log = deps.log;
    this.duty = deps.duty;
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const token = ulid();
      const askedAt = performance.now();
      let term = 0;
      try {
        term = Number(await this.redis.eval(CAMPAIGN, 2, LEADER_KEY, TERM_KEY, token, TTL_MS));
      } catch (err) {
        this.log.warn({ err }, 'campaign failed');
      }
      if (term > 0) await this.lead(token, term, askedAt, stop);
      await sleep(RENEW_MS + Math.random() * 1_000, undefined, { signal: stop }).catch(() => undefined);
    }
  }

  private async lead(token: string, number: number, askedAt: number, stop: AbortSignal): Promise<void> {
    const controller = new AbortController();
    let validUntil = askedAt + TTL_MS - SAFETY_MS;
    let finished = false;
    const isCurrent = () => !controller.signal.aborted && performance.now() < validUntil;

    this.log.info({ term: number }, 'elected');
    const task = this.duty({ number, signal: controller.signal, isCurrent })
      .catch((err) => this.log.error({ err, term: number }, 'duty ended with an error'))
      .finally(() => {
        finished = true;
      });

    while (!stop.aborted && !finished) {
      const pause = Math.max(0, Math.min(RENEW_MS, validUntil - performance.now()));
      await Promise.race([sleep(pause), task]);
      if (finished) break;

      const sentAt = performance.now();
      if (sentAt >= validUntil) break;
      try {
        const reply = await Promise.race([
          this.redis.eval(RENEW, 1, LEADER_KEY, token, TTL_MS),
          sleep(validUntil - sentAt, 'timeout'),
        ]);
        if (reply !== 1) break;
        if (performance.now() >= validUntil) break;
        validUntil = sentAt + TTL_MS - SAFETY_MS;
      } catch (err) {
        this.log.warn({ err, term: number }, 'renewal failed, trying again while the term lasts');
      }
    }

    controller.abort(new Error(`term ${number} is over`));
    await task;
    await this.redis
      .eval(RESIGN, 1, LEADER_KEY, token)
      .catch((err) => this.log.warn({ err, term: number }, 'could not resign'));
    this.log.info({ term: number }, 'stepped down');
  }
}

/** The duty: hands ungraded papers out to graders, one at a time. */
export function assignPapers(db: Database): Duty {
  return async (term) => {
    while (term.isCurrent()) {
      const paper = await db.nextUngraded();
      if (!paper) {
        await sleep(1_000, undefined, { signal: term.signal }).catch(() => undefined);
        continue;
      }
      const grader = await db.leastBusyGrader(paper.examId);
      if (!term.isCurrent()) return;
      await db.query(
        `WITH seat AS (
           UPDATE grading_seat SET term = $1 WHERE id = 1 AND term <= $1 RETURNING term
         )
         UPDATE papers SET grader_id = $2
          WHERE id = $3 AND grader_id IS NULL AND EXISTS (SELECT 1 FROM seat)`,
        [term.number, grader.id, paper.id],
      );
    }
  };
}
