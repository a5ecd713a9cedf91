import { afterEach, describe, expect, it, vi } from 'vitest';
import { localTime } from '../../core/index.js';
import { noCounts } from '../../properties/coverage.js';
import { Monitors } from '../../properties/monitors/monitors.js';
import type { Violation } from '../../properties/violation.js';
import type { Fault } from '../../scenarios/index.js';
import { WITHIN_ASSUMPTIONS } from '../../search/fault-model.js';
import { generateRun } from '../../search/generated-run.js';
import {
  after,
  Clock,
  type HoldEndCause,
  type KeyRemovalCause,
  RandomStreams,
  ScriptedAdversary,
  type Setup,
  type SimLock,
  setupOf,
  simulate,
  type TrueTime,
  trueTime,
  World,
} from '../../sim/index.js';
import { lock, schedule } from '../../sim/testing/schedule.js';
import { type Agreement, compareRuns } from './agreement.js';
import { checkTrace } from './offline.js';

/**
 * Group H: bugs of the harness itself, planted one by one, and what catches them. A checker that nobody checks is worth
 * little.
 */

type Wrong = 'nothing' | 'closed intervals' | 'looks only when somebody claims' | 'ignores the release';

/** Mutual exclusion checked in another way than usual: by intervals of belief, with a planted bug. */
class PlantedMonitors extends Monitors {
  private readonly wrong: Wrong;
  private readonly held: { readonly lock: SimLock; readonly from: number; to: number }[] = [];

  private endUs = 0;

  constructor(setup: Setup, wrong: Wrong) {
    super(setup, noCounts(), true);
    this.wrong = wrong;
  }

  override claimed(it: SimLock, now: TrueTime): void {
    super.claimed(it, now);
    this.held.push({ lock: it, from: now, to: it.client.clock.when(it.state.hold.deadline, now) });
  }

  override extended(it: SimLock, now: TrueTime): void {
    super.extended(it, now);
    const last = this.held.findLast((hold) => hold.lock === it);
    if (last !== undefined) last.to = it.client.clock.when(it.state.hold.deadline, now);
  }

  override ended(it: SimLock, cause: HoldEndCause, now: TrueTime): void {
    super.ended(it, cause, now);
    const last = this.held.findLast((hold) => hold.lock === it);
    if (last === undefined || (cause === 'released' && this.wrong === 'ignores the release')) return;
    last.to = Math.min(last.to, now);
  }

  override keyGone(node: number, key: number, token: number, cause: KeyRemovalCause, by: number, now: TrueTime): void {
    if (this.wrong === 'looks only when somebody claims' && by === 0) return;
    super.keyGone(node, key, token, cause, by, now);
  }

  override clientClockChanged(client: number, now: TrueTime): void {
    if (this.wrong !== 'looks only when somebody claims') super.clientClockChanged(client, now);
  }

  override finished(now: TrueTime): void {
    super.finished(now);
    this.endUs = now;
  }

  /** What it found in its own way takes the place of what the usual monitor found. */
  override get violations(): readonly Violation[] {
    const usual = super.violations;
    if (this.wrong !== 'closed intervals' && this.wrong !== 'ignores the release') return usual;
    const rest = usual.filter(({ property }) => property !== 'mutual-exclusion');
    return [...rest, ...this.held.flatMap((a, i) => this.held.slice(i + 1).flatMap((b) => this.overlaps(a, b)))];
  }

  private overlaps(a: (typeof this.held)[number], b: (typeof this.held)[number]): Violation[] {
    const [atUs, untilUs] = [Math.max(a.from, b.from), Math.min(a.to, b.to, this.endUs)];
    if (!(this.wrong === 'closed intervals' ? atUs <= untilUs : atUs < untilUs)) return [];
    const clients = [a.lock.client.name, b.lock.client.name];
    return a.lock.plan.resources
      .filter((it) => b.lock.plan.resources.includes(it))
      .map((resource) => ({
        property: 'mutual-exclusion',
        kind: 'belief',
        atUs,
        untilUs,
        resource,
        clients,
        detail: '',
      }));
  }
}

/** Four hundred runs, half of them rough. */
function compareWith(wrong: Wrong): Agreement {
  return compareRuns('group H', 0, 400, (setup) => new PlantedMonitors(setup, wrong));
}

/** What the examples differ in. */
const differing = ({ examples }: Agreement): unknown[] =>
  examples.flatMap(({ onlyOnline, onlyOffline }) => [...onlyOnline, ...onlyOffline].map((it) => it.split(' ')[0]));

describe('a wrong monitor disagrees with the trace (M55)', () => {
  it('where nothing is planted there is no difference', () => {
    expect(compareWith('nothing')).toMatchObject({ disagreements: 0 });
  });

  it.each([
    ['closed intervals', 'mutual-exclusion'],
    ['looks only when somebody claims', 'quorum-backed'],
    ['ignores the release', 'mutual-exclusion'],
  ] as const)('%s', (wrong, property) => {
    const found = compareWith(wrong);
    expect(found.disagreements).toBeGreaterThan(0);
    expect(differing(found)).toContain(property);
  });
});

/** The hash of the same drawn run, made twice. */
function twice(): [string, string] {
  const hash = (): string =>
    generateRun(WITHIN_ASSUMPTIONS, new RandomStreams('twice'), 7).world.context.trace.digest();
  return [hash(), hash()];
}

describe('hidden nondeterminism shows in the hash (M56)', () => {
  afterEach(() => vi.restoreAllMocks());

  it('where nothing is planted the hash is the same twice', () => {
    const [first, second] = twice();
    expect(first).toBe(second);
  });

  it('a clock that reads the time of day', () => {
    const { read } = Clock.prototype;
    let asked = 0;
    vi.spyOn(Clock.prototype, 'read').mockImplementation(function (this: Clock, at) {
      // What Date.now would do: it moves on by itself, from run to run.
      return localTime(read.call(this, at) + Math.floor(asked++ / 100));
    });
    const [first, second] = twice();
    expect(first).not.toBe(second);
  });

  it('a choice made with an unseeded generator', () => {
    const hash = (): string => {
      const plan = schedule({ locks: [[lock(0)], [lock(1)]] });
      const adversary = new ScriptedAdversary(plan);
      vi.spyOn(adversary, 'fate').mockImplementation((_message, _direction, _send, slot) => {
        slot.delayUs = Math.floor(Math.random() * 1e6);
      });
      const world = new World(setupOf(plan), adversary, new Monitors(setupOf(plan)), false);
      world.run();
      return world.context.trace.digest();
    };
    expect(hash()).not.toBe(hash());
  });
});

describe('a clock that lets a timer fire early breaks message-integrity (M56)', () => {
  afterEach(() => vi.restoreAllMocks());

  const slow: Fault = { kind: 'clock-drift', process: 'c1', atUs: 3, ratePpm: -300_003 };
  const conserved = (): string[] => {
    const plan = schedule({ faults: [slow], cluster: { clocks: [{ process: 'n1', offsetUs: 7, ratePpm: 4_321 }] } });
    const { trace, endUs } = simulate(plan, { trace: true });
    return checkTrace(setupOf(plan), trace, endUs).findings.flatMap(({ property, clients }) =>
      property === 'message-integrity' ? clients : [],
    );
  };

  it('where nothing is planted it holds', () => {
    expect(conserved()).toEqual([]);
  });

  it('an inverse that rounds down, and a reading that rounds up to go with it', () => {
    const { read, when } = Clock.prototype;
    vi.spyOn(Clock.prototype, 'when').mockImplementation(function (this: Clock, local, from) {
      const at = when.call(this, local, from);
      return at > from && this.rate !== 0 ? trueTime(at - 1) : at;
    });
    vi.spyOn(Clock.prototype, 'read').mockImplementation(function (this: Clock, at) {
      return this.rate === 0 ? read.call(this, at) : read.call(this, after(at, 1));
    });
    expect(conserved()).toContain('c1');
    expect(conserved()).toContain('n1');
  });
});
