import { afterEach, describe, expect, test } from 'vitest';
import {
  type Command,
  type LocalTime,
  localTime,
  type Outcome,
  SOUND_POLICY,
  type Timer,
  type Token,
} from '../../core/index.js';
import { LockDriver, type Voter } from './driver.js';
import type { LockRuntime } from './machine.js';
import { Pacer } from './pacer.js';
import { NO_VOTE, type RedisConnection, type Reply, type Request } from './request.js';
import { corkForThisTurn } from './socket.js';

const YES: Reply = { answer: 'yes', counter: 0 };
const NO: Reply = { answer: 'no', counter: 0 };

/** A lock on three nodes whose clock is set by hand, and whose nodes answer when the test says so. */
class HandDriven extends LockDriver {
  readonly sent: string[];
  readonly commands: Command[];
  /** What was told, and after how many commands. */
  readonly outcomes: string[] = [];
  nowUs: LocalTime = localTime(0);
  /** Whether what is sent is held back until the turn is over, as on a connection that owes answers. */
  corks = false;

  constructor(away: readonly number[] = []) {
    const sent: string[] = [];
    const commands: Command[] = [];
    const voter = (index: number): Voter => ({
      index,
      perform: ({ command }: Request): boolean => {
        commands.push(command);
        if (this.corks) corkForThisTurn(connection);
        if (!away.includes(index)) sent.push(`${command.operation} ${command.attempt} n${index}`);
        return !away.includes(index);
      },
      decline: ({ operation, attempt }) => void sent.push(`declined ${operation} ${attempt} n${index}`),
    });
    const connection = { stream: { cork() {}, uncork() {} } } as unknown as RedisConnection;
    let tokens = 0;
    const machine: LockRuntime = {
      clock: { now: () => this.nowUs, checkedNow: () => this.nowUs, wallMsAt: () => 0 },
      chance: { draw: () => ({ token: `t${tokens++}` as Token, jitterPpm: 500_000 }) },
    };
    const settings = { ...SOUND_POLICY.settings, tries: 3, retryDelayUs: 40_000, retryJitterUs: 0 };
    super(
      { nodes: [0, 1, 2].map(voter), pacer: new Pacer() },
      { ...SOUND_POLICY, settings: { ...settings, nodeTimeoutUs: 50_000 } },
      ['k'],
      machine,
    );
    this.sent = sent;
    this.commands = commands;
  }

  at(ms: number): this {
    this.nowUs = localTime(ms * 1000);
    return this;
  }

  call(): this {
    this.start(10_000);
    return this;
  }

  answer(attempt: number, reply: Reply, ...nodes: number[]): this {
    const command = this.commands.find((it) => it.operation === 'acquire' && it.attempt === attempt);
    if (command === undefined) throw new Error(`attempt ${attempt} was not made`);
    for (const node of nodes) this.onReply(node, command, reply, null, this.nowUs);
    return this;
  }

  due(timer: Timer): this {
    this.cancel(this, timer);
    this.onTimer(timer, this.nowUs);
    return this;
  }

  protected override onOutcome({ type }: Outcome): void {
    this.outcomes.push(`${type} after ${this.sent.length}`);
  }

  extend(): this {
    this.feed({ type: 'extend', now: this.nowUs, ttlMs: 10_000 });
    return this;
  }

  release(): this {
    this.feed({ type: 'release', now: this.nowUs });
    return this;
  }

  /** Other locks of this process have rounds that wait. */
  busy(): this {
    this.pacer.wait(() => {});
    return this;
  }

  /** What was held back is written. */
  turn(): Promise<void> {
    return new Promise(process.nextTick);
  }

  end(): void {
    this.stop();
  }
}

describe('the driver of a lock', () => {
  const driven: HandDriven[] = [];
  const drive = (away: readonly number[] = []): HandDriven => {
    const lock = new HandDriven(away);
    driven.push(lock);
    return lock;
  };
  afterEach(async () => {
    for (const lock of driven.splice(0)) lock.end();
    // What is held back is so for all locks of a process.
    await new Promise(setImmediate);
  });

  test('lets an attempt time out, whatever was sent meanwhile that has nothing to do with it', () => {
    const lock = drive().at(0).call().answer(0, NO, 0, 1);
    expect(lock.state.phase).toBe('waiting');
    lock.at(40).due('retry').at(60).answer(0, YES, 2);
    expect(lock.state.phase).toBe('acquiring');
    expect(lock.sent.at(-1)).toBe('release 0 n2');
    lock.at(90).due('attempt');
    expect(lock.state.phase).toBe('waiting');
  });

  test('lets an attempt time out, though the late release of another was held back for a turn', async () => {
    const lock = drive().at(0).call().answer(0, NO, 0, 1).at(40).due('retry').at(60);
    lock.corks = true;
    lock.answer(0, YES, 2);
    await lock.turn();
    expect(lock.sent.at(-1)).toBe('release 0 n2');
    lock.at(90).due('attempt');
    expect(lock.state.phase).toBe('waiting');
  });

  test('lets an attempt time out, though the late release of another waits for its turn', () => {
    const lock = drive().at(0).call().answer(0, NO, 0, 1).at(40).due('retry').busy().at(60).answer(0, YES, 2);
    expect(lock.sent.at(-1)).toBe('acquire 1 n2');
    lock.at(90).due('attempt');
    expect(lock.state.phase).toBe('waiting');
  });

  test('gives nodes the whole time-out from when its own commands were written', async () => {
    const lock = drive().at(0);
    lock.corks = true;
    lock.call();
    await lock.at(20).turn();
    lock.at(50).due('attempt');
    expect(lock.state.phase).toBe('acquiring');
    lock.at(70).due('attempt');
    expect(lock.state.phase).toBe('waiting');
  });

  test('lets an attempt time out on a clock that is before its start', () => {
    const lock = drive().at(-10_000).call().at(-9_950).due('attempt');
    expect(lock.state.phase).toBe('waiting');
  });

  test('sends a release to nodes that may have the key, and to no other', () => {
    const lock = drive([1]).at(0).call();
    lock.answer(0, NO_VOTE, 1).answer(0, NO, 0, 2);
    expect(lock.sent.slice(2)).toEqual(['release 0 n0', 'declined release 0 n1', 'release 0 n2']);
    expect(lock.outcomes).toEqual([]);
  });

  test('tells of an outcome when all that follows from it is done: the owner may call back at once', () => {
    const lock = drive().at(0).call().answer(0, YES, 0, 1).extend().release();
    expect(lock.outcomes).toEqual(['acquired after 3', 'not-extended after 9']);
    expect(lock.sent.slice(6)).toEqual(['release 0 n0', 'release 0 n1', 'release 0 n2']);
  });
});
