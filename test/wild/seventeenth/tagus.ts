import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/**
 * A semaphore with one permit over independent nodes. The permit is a handle that can be passed on: the code that keeps it calls
 * `retain`, and the last `release` gives it back.
 */

const script = {
  give: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  keep: `
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    if redis.call('pttl', KEYS[1]) >= tonumber(ARGV[2]) then return 1 end
    return redis.call('pexpire', KEYS[1], ARGV[2])`,
};

class Panel {
  constructor(private readonly members: readonly Redis[]) {}

  /** Puts a question to all members. Who has not answered in time abstains. */
  ask(question: (member: Redis) => Promise<unknown>, timeMs: number): Promise<boolean> {
    const needed = Math.floor(this.members.length / 2) + 1;
    return new Promise((resolve) => {
      let open = this.members.length;
      let ayes = 0;
      const timer = setTimeout(close, timeMs, false);
      function close(result: boolean): void {
        clearTimeout(timer);
        resolve(result);
      }
      const hear = (aye: boolean): void => {
        open -= 1;
        if (aye) ayes += 1;
        if (ayes >= needed) close(true);
        else if (ayes + open < needed) close(false);
      };
      for (const member of this.members)
        question(member).then(
          (answer) => hear(answer === 'OK' || answer === 1),
          () => hear(false),
        );
    });
  }

  /** Tells all members, at most three times each, and waits until they know or the time is up. */
  async tell(message: (member: Redis) => Promise<unknown>, timeMs: number): Promise<void> {
    await Promise.all(
      this.members.map(async (member) => {
        for (let round = 0; round < 3; round += 1) {
          const timer = new Timer(timeMs / 3);
          const heard = await Promise.race([message(member).then(() => true, () => false), timer.ended]);
          timer.stop();
          if (heard) return;
          await new Timer(timeMs / 30).ended;
        }
      }),
    );
  }
}

class Timer {
  readonly ended: Promise<false>;
  private id: ReturnType<typeof setTimeout> | undefined;

  constructor(ms: number) {
    this.ended = new Promise((resolve) => {
      this.id = setTimeout(() => resolve(false), ms);
    });
  }

  stop(): void {
    clearTimeout(this.id);
  }
}

class Permit {
  private keepers = 1;
  private end = 0;
  private readonly id = randomUUID();

  constructor(
    private readonly panel: Panel,
    private readonly key: string,
    private readonly ttlMs: number,
  ) {}

  async request(): Promise<boolean> {
    const now = performance.now();
    const granted = await this.panel.ask(async (member) => {
      const answer = await member.set(this.key, this.id, 'PX', this.ttlMs, 'NX');
      if (answer === 'OK' && this.keepers === 0) member.eval(script.give, 1, this.key, this.id).catch(() => {});
      return answer;
    }, this.ttlMs * 0.4);
    this.end = now + this.safe(this.ttlMs);
    if (granted && this.isHeld) return true;
    this.keepers = 0;
    void this.giveBack();
    return false;
  }

  get isHeld(): boolean {
    return this.keepers > 0 && performance.now() < this.end;
  }

  retain(): this {
    if (!this.isHeld) throw new Error('the permit is over');
    this.keepers += 1;
    return this;
  }

  async release(): Promise<void> {
    if (this.keepers === 0) return;
    this.keepers -= 1;
    if (this.keepers === 0) await this.giveBack();
  }

  async extend(ttlMs: number): Promise<boolean> {
    if (!this.isHeld) return false;
    const now = performance.now();
    const kept = await this.panel.ask((member) => member.eval(script.keep, 1, this.key, this.id, ttlMs), ttlMs * 0.4);
    if (!kept || !this.isHeld) return false;
    this.end = Math.max(this.end, now + this.safe(ttlMs));
    return true;
  }

  private giveBack(): Promise<void> {
    return this.panel.tell((member) => member.eval(script.give, 1, this.key, this.id), this.ttlMs / 2);
  }

  /** What of a time is left on the fastest clock. */
  private safe(ms: number): number {
    return Math.floor(ms * 0.985) - 3;
  }
}

export const make: MakeLock = ({ nodes }) => {
  const panel = new Panel(nodes);
  return {
    async acquire(resource, ttlMs) {
      const started = performance.now();
      let permit = new Permit(panel, `${resource}:permit:0`, ttlMs);
      while (!(await permit.request())) {
        if (performance.now() - started > ttlMs * 4) return null;
        await new Timer(ttlMs * (0.02 + 0.1 * Math.random())).ended;
        permit = new Permit(panel, `${resource}:permit:0`, ttlMs);
      }
      return permit;
    },
  };
};
