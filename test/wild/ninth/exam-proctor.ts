import { randomUUID } from 'node:crypto';
import { createClientPool, WatchError } from 'redis';

// EVAL is switched off by our hosting provider, hence WATCH. WATCH belongs to a
// connection, so every check-and-change borrows one of its own from the pool.
const pool = createClientPool({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' }, { maximum: 10 });
pool.on('error', (err) => console.error('proctor redis pool', err));
let connected: Promise<unknown> | undefined;
const ready = () =>
  (connected ??= pool.connect().catch((err) => {
    connected = undefined;
    throw err;
  }));

const TTL = 12_000;
const SLACK = 400;

async function ifMine(key: string, token: string, change: 'del' | 'renew'): Promise<boolean> {
  return pool.execute(async (client) => {
    await client.watch(key);
    const owner = await client.get(key).catch(async (err) => {
      await client.unwatch().catch(() => {});
      throw err;
    });
    if (owner !== token) {
      await client.unwatch();
      return false;
    }
    try {
      const multi = client.multi();
      const [n] = await (change === 'del' ? multi.del(key) : multi.pExpire(key, TTL)).exec();
      return Number(n) === 1;
    } catch (err) {
      if (err instanceof WatchError) return false; // it changed hands (or lapsed) in between
      throw err;
    }
  });
}

export class ExamLock {
  static async acquire(examId: string): Promise<ExamLock | null> {
    await ready();
    const token = randomUUID();
    const key = `proctor:exam:${examId}`;
    const sent = performance.now();
    const reply = await pool.set(key, token, { NX: true, PX: TTL });
    return reply === 'OK' ? new ExamLock(key, token, sent + TTL - SLACK) : null;
  }

  private readonly key: string;
  private readonly token: string;
  private until: number;
  private lost = false;

  private constructor(key: string, token: string, until: number) {
    this.key = key;
    this.token = token;
    this.until = until;
  }

  /** May this proctor still write marks? To be asked right before each mark. */
  get valid(): boolean {
    return !this.lost && performance.now() < this.until;
  }

  /** Called between candidates. An error leaves the old deadline as it is. */
  async renew(): Promise<boolean> {
    if (this.lost) return false;
    const sent = performance.now();
    try {
      const mine = await ifMine(this.key, this.token, 'renew');
      if (mine && performance.now() < this.until) this.until = sent + TTL - SLACK;
      else this.lost = true;
    } catch (err) {
      console.warn('proctor: renewal', err);
    }
    return this.valid;
  }

  async release(): Promise<void> {
    this.lost = true;
    await ifMine(this.key, this.token, 'del').catch((err) => console.warn('proctor: release, will expire', err));
  }
}

export interface Marks {
  candidates(examId: string): Promise<string[]>;
  grade(candidate: string): Promise<number>;
  save(examId: string, candidate: string, mark: number): Promise<void>;
}

export async function gradeExam(examId: string, marks: Marks): Promise<boolean> {
  const lock = await ExamLock.acquire(examId);
  if (!lock) return false;
  try {
    for (const c of await marks.candidates(examId)) {
      const mark = await marks.grade(c);
      if (!(await lock.renew())) throw new Error(`exam ${examId}: another proctor took over`);
      if (!lock.valid) throw new Error(`exam ${examId}: lock expired`);
      await marks.save(examId, c, mark);
    }
    return true;
  } finally {
    await lock.release();
  }
}
