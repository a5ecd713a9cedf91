import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PolicyChange } from '../deviations/index.js';
import type { Command } from './commands.js';
import type { Effect } from './event.js';
import { members, type NodeSet, size } from './nodes.js';
import { TestLock } from './testing/lock.js';
import type { LocalTime } from './time.js';

interface Message {
  readonly node: number;
  readonly command: Command;
  readonly answer: 'yes' | 'no' | null;
}

/**
 * A lock on nodes that keep keys for ever, where commands and answers overtake each other as the choices say, and
 * timers go off at any time after theirs. Nothing is lost and nothing comes twice.
 */
class World {
  readonly lock: TestLock;
  readonly keys: Array<Command['token'] | 'foreign' | null>;
  readonly inFlight: Message[] = [];
  private seen = 0;

  constructor(policy: PolicyChange, foreign: readonly boolean[]) {
    this.lock = new TestLock(policy, foreign.length);
    this.keys = foreign.map((taken) => (taken ? 'foreign' : null));
    this.take(this.lock.acquire().effects);
  }

  /** One thing happens: a message moves on (the likeliest), a timer goes off, or an owner acts. */
  choose(choice: number): void {
    const { lock, inFlight } = this;
    lock.at(lock.now / 1000 + 1 + (choice % 7));
    const timers = [...lock.armed.keys()];
    const pick = choice % (inFlight.length * 2 + timers.length + 3);
    if (pick < inFlight.length * 2) this.move(pick >> 1);
    else if (pick < inFlight.length * 2 + timers.length) this.fire(timers[pick - inFlight.length * 2]);
    else if (pick % 3 === 0) this.take(lock.extend().effects);
    else if (choice % 11 === 0) this.release();
    else if (this.keys[0] === 'foreign') this.keys[0] = null;
  }

  release(): void {
    this.take(this.lock.release().effects);
  }

  /** Everything under way arrives, latest first or earliest first. */
  settle(latestFirst: boolean): void {
    for (let moves = 0; this.inFlight.length > 0; moves++) {
      if (moves > 10_000) throw new Error('never quiet');
      this.move(latestFirst ? this.inFlight.length - 1 : 0);
    }
  }

  private fire(timer: Parameters<TestLock['fire']>[0] | undefined): void {
    const due = timer && this.lock.armed.get(timer);
    if (timer === undefined || due === undefined) return;
    this.lock.at(Math.max(due, this.lock.now / 1000));
    this.take(this.lock.fire(timer).effects);
  }

  private move(index: number): void {
    const [message] = this.inFlight.splice(index, 1);
    if (message === undefined) return;
    const { node, command, answer } = message;
    if (answer === null) this.inFlight.push({ node, command, answer: this.execute(node, command) });
    else this.take(this.lock.answer(command, answer, node).effects);
  }

  private execute(node: number, { operation, token }: Command): 'yes' | 'no' {
    if (operation === 'acquire') {
      if (this.keys[node] !== null) return 'no';
      this.keys[node] = token;
      return 'yes';
    }
    if (this.keys[node] !== token) return 'no';
    if (operation === 'release') this.keys[node] = null;
    return 'yes';
  }

  private take(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.type !== 'send') continue;
      for (const node of members(effect.to)) this.inFlight.push({ node, command: effect.command, answer: null });
    }
    for (const outcome of this.lock.outcomes.slice(this.seen)) {
      if (outcome.type === 'acquired') this.checkClaim(this.lock.state.attempt.startedAt);
      if (outcome.type === 'extended') this.checkClaim(this.lock.state.extension.startedAt);
    }
    this.seen = this.lock.outcomes.length;
    this.checkSets();
  }

  /** A claim has a quorum of votes that are really there, counts from its own start, and begins before it ends. */
  private checkClaim(from: LocalTime): void {
    const { state, now } = this.lock;
    expect(size(state.votes.yes)).toBeGreaterThanOrEqual(state.electorate.needed);
    expect(members(state.votes.yes).every((node) => this.keys[node] === state.attempt.token)).toBe(true);
    expect(state.hold.deadline).toBe(from + 9_898_000);
    expect(now).toBeLessThan(state.hold.deadline);
  }

  private checkSets(): void {
    const s = this.lock.state;
    const disjoint = (...sets: NodeSet[]): boolean => {
      const nodes = sets.flatMap(members);
      return new Set(nodes).size === nodes.length && nodes.every((node) => node < s.electorate.nodes);
    };
    for (const { yes, no, failed } of [s.votes, s.extension.votes, s.release.votes])
      expect(disjoint(yes, no, failed)).toBe(true);
  }
}

const choices = fc.array(fc.nat({ max: 10_000 }), { minLength: 10, maxLength: 80 });
const clusters = fc.array(fc.boolean(), { minLength: 1, maxLength: 7 });
const policies: fc.Arbitrary<PolicyChange> = fc.record({
  settings: fc.record({
    votesWanted: fc.constantFrom('quorum', 'all'),
    tries: fc.constantFrom(1, 2, 4),
    autoExtendAtUs: fc.constantFrom(null, 9_000_000),
  }),
  deviations: fc.subarray(['asks-in-turn', 'settles-with-all']),
});

describe('in whatever order commands, answers and timers come', () => {
  it('a lock that was released, given up or not got leaves nothing of its own on any node', () => {
    let late = 0;
    fc.assert(
      fc.property(policies, clusters, choices, fc.boolean(), (policy, cluster, sequence, latestFirst) => {
        const world = new World(policy, cluster);
        for (const choice of sequence) world.choose(choice);
        if (world.inFlight.length > 0) late++;
        world.release();
        world.settle(latestFirst);
        expect(['released', 'failed']).toContain(world.lock.phase);
        expect(world.keys.filter((key) => key !== null && key !== 'foreign')).toEqual([]);
      }),
      { numRuns: 400, seed: 1 },
    );
    expect(late).toBeGreaterThan(100);
  });

  it('an acquisition and a release are each answered once, and each attempt has a token of its own', () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(policies, clusters, choices, (policy, cluster, sequence) => {
        const world = new World(policy, cluster);
        const { lock } = world;
        for (const choice of sequence) world.choose(choice);
        const ends = lock.outcomes.filter(({ type }) => type === 'acquired' || type === 'failed');
        expect(ends.length).toBe(['acquiring', 'waiting'].includes(lock.phase) ? 0 : 1);
        const released = lock.outcomes.filter(({ type }) => type === 'released');
        expect(released.length).toBe(lock.phase === 'released' ? 1 : 0);
        const owners = lock.commands.map(({ attempt, token }) => `${attempt} ${token}`);
        expect(new Set(owners).size).toBe(lock.state.attempt.number + 1);
        for (const { type } of lock.outcomes) seen.set(type, (seen.get(type) ?? 0) + 1);
      }),
      { numRuns: 400, seed: 2 },
    );
    expect([...seen.keys()].sort()).toEqual(['acquired', 'extended', 'failed', 'lost', 'not-extended', 'released']);
  });
});
