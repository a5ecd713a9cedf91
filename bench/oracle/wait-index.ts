import type { TraceEvent } from '../../sim/index.js';
import { AttemptIndex, at, type Use } from './attempt-index.js';
import { Conditions, type Trouble } from './conditions.js';
import { slowUs } from './patience.js';
import type { Lock, TraceIndex, TraceRef } from './trace-index.js';

const SENT: readonly string[] = ['send', 'lost'];
const DELAYS: readonly string[] = ['pause', 'suspend', 'clock-step', 'clock-drift'];

/** A stretch of a lock's life in the trace; the end is not part of it. */
interface Stage {
  readonly from: TraceRef;
  readonly to: TraceRef | null;
}

/** Who asked for locks and who held them, what kept them out, and what got in their way: for the rules of liveness. */
export class WaitIndex {
  readonly record: TraceIndex;
  readonly conditions: Conditions;
  readonly uses: AttemptIndex;
  /** Everything that disturbs, in order. */
  readonly troubles: readonly Trouble[];
  /** Whatever froze a process or changed its clock. */
  private readonly delays = new Map<string, TraceEvent[]>();
  private readonly deaths = new Map<string, TraceRef[]>();
  private readonly waits = new Map<Lock, Stage>();
  private readonly holds = new Map<Lock, Stage[]>();

  constructor(record: TraceIndex) {
    this.record = record;
    this.conditions = new Conditions(record);
    this.uses = new AttemptIndex(record);
    for (const event of record.events) {
      const { kind, process } = event;
      if (kind === 'client-crash') this.deaths.set(process, [...(this.deaths.get(process) ?? []), event]);
      if (DELAYS.includes(kind)) this.delays.set(process, [...(this.delays.get(process) ?? []), event]);
    }
    for (const lock of record.locks) {
      const ends = [lock.turns.find(({ kind }) => kind !== 'end'), lock.failed, this.deathOf(lock)];
      this.waits.set(lock, { from: lock.call, to: earliest(ends) });
      this.holds.set(lock, holdsOf(lock));
    }
    this.troubles = [...this.conditions.troubles, ...this.messages(), ...this.strays()].sort((a, b) => a.seq - b.seq);
  }

  private strays(): Trouble[] {
    return this.uses.strays.map(({ seq, atUs }) => ({ seq, atUs, untilUs: atUs }));
  }

  /** Messages that were lost, copied, sent again, or slow by the node time-out of a lock that had begun to ask by then. */
  private messages(): Trouble[] {
    const { events, locks, setup } = this.record;
    // What a lock sends as it begins is not looked at by its own measure yet.
    const slow = locks.map((lock) => ({
      fromSeq: this.lastSentWith(lock.attempts[0]?.asked[0] ?? lock.call),
      us: slowUs(setup.policy, this.conditions.list(lock).nodes.length, lock.call.ttlMs, setup.cluster.scripts),
    }));
    return events.flatMap(({ kind, seq, atUs, detail }): Trouble[] => {
      if (kind !== 'send' && kind !== 'lost') return [];
      const ends: number[] = [];
      if (detail.resendUs !== undefined) ends.push(Number(detail.resendUs));
      if (detail.copyArrivesUs !== undefined) ends.push(Number(detail.copyArrivesUs));
      if (kind === 'lost' && detail.cut === undefined) ends.push(atUs);
      const arrivesUs = Number(detail.arrivesUs ?? atUs);
      const isSlow = slow.some(({ fromSeq, us }) => fromSeq < seq && arrivesUs - atUs > us);
      if (isSlow) ends.push(arrivesUs);
      return ends.map((untilUs) => ({ seq, atUs, untilUs }));
    });
  }

  /** Where the process that asked for a lock died, if it did. */
  deathOf({ client, call }: Lock): TraceRef | null {
    return this.deaths.get(client)?.find(({ seq }) => seq > call.seq) ?? null;
  }

  /** What froze a process or changed its clock, in order. */
  delaysOf(process: string): readonly TraceEvent[] {
    return this.delays.get(process) ?? [];
  }

  /** Since when nothing had been disturbed, as seen from a place of the trace; ends in that very instant included. */
  calmSince(atUs: number, seq: number): number {
    let since = 0;
    for (const trouble of this.troubles) {
      if (trouble.seq >= seq) break;
      since = Math.max(since, trouble.untilUs <= atUs ? trouble.untilUs : 0, trouble.atUs);
    }
    return since;
  }

  isWaiting(lock: Lock, seq: number): boolean {
    const stage = this.waits.get(lock);
    return stage !== undefined && isIn(stage, seq);
  }

  isHolding(lock: Lock, seq: number): boolean {
    return (this.holds.get(lock) ?? []).some((stage) => isIn(stage, seq));
  }

  /** From when until when a client held a lock by its own account. */
  stagesOf(lock: Lock): readonly Stage[] {
    return this.holds.get(lock) ?? [];
  }

  /** The first place of the trace that is later than an instant; behind its last one, if that is not. */
  seqAfter(atUs: number): number {
    const { events } = this.record;
    let [low, high] = [0, events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((events[middle]?.atUs ?? 0) > atUs) high = middle;
      else low = middle + 1;
    }
    return events[low]?.seq ?? low;
  }

  /** The last of what a client sent in one go. */
  lastSentWith({ seq }: TraceRef): number {
    const { events } = this.record;
    const first = events[seq];
    const isPart = (it: TraceEvent | undefined): boolean =>
      it?.process === first?.process &&
      it?.cause === first?.cause &&
      it?.atUs === first?.atUs &&
      SENT.includes(it?.kind ?? '');
    let last = seq;
    while (isPart(events[last + 1])) last++;
    return last;
  }

  /** Where the client stopped to hold, by its own account. */
  endsOf(lock: Lock): TraceRef[] {
    return (this.holds.get(lock) ?? []).flatMap(({ to }) => (to === null ? [] : [to]));
  }

  /** Until when keys of others keep as many nodes away as are missing to a majority of these; 0 if they do not. */
  freeAt(locks: readonly Lock[], usable: readonly string[], atUs: number, seq: number): number {
    const [lock] = locks;
    if (lock === undefined) return 0;
    const keys = this.record.keyNames(lock);
    const rivals = this.uses
      .storedAt(seq)
      .filter((use) => this.record.keyNames(use.lock).some((it) => keys.includes(it)));
    const untils = usable.map((node) => {
      const there = rivals.filter((use) => at(use.holding, seq)?.has(node));
      return Math.max(0, ...there.map((use) => this.reasonEnds(locks, use, node, atUs, seq)));
    });
    const { nodes, majority } = this.conditions.list(lock);
    const kept = untils.filter((until, i) => until > 0 && nodes.includes(usable[i] ?? '')).sort((a, b) => a - b);
    const missing = majority - (usable.length - kept.length);
    return missing <= 0 ? 0 : (kept[missing - 1] ?? 0);
  }

  /** A key is there until its TTL is over on the slowest clock; an own one only after a release that must have been lost. */
  private reasonEnds(locks: readonly Lock[], use: Use, node: string, atUs: number, seq: number): number {
    if (locks.includes(use.lock)) {
      const since = at(use.orphaned, seq) ?? atUs;
      const wasSent = use.released.some((it) => it.node === node && it.seq < seq);
      const isOver = use.over !== null && use.over.seq < seq;
      if (!isOver || !wasSent || since + (this.record.setup.policy.settings.nodeTimeoutUs ?? 0) > atUs) return 0;
    }
    const { ttlMs } = use.lock.call;
    const longestMs = Math.max(ttlMs, at(use.rounds, seq) ?? 0);
    const stretched = (1000 * longestMs + this.conditions.setBackUs(seq)) / this.conditions.slowness(seq);
    return (at(use.lives, seq) ?? 0) + Math.ceil(Math.max(0, stretched - 1000 * ttlMs));
  }
}

/** The first of those that there are. */
export function earliest(marks: readonly (TraceRef | null | undefined)[]): TraceRef | null {
  const there = marks.filter((it) => it !== null && it !== undefined);
  return there.sort((a, b) => a.seq - b.seq)[0] ?? null;
}

function isIn({ from, to }: Stage, seq: number): boolean {
  return from.seq < seq && (to === null || seq <= to.seq);
}

/** From a grant to what ends it; grants in between change nothing. */
function holdsOf({ turns }: Lock): Stage[] {
  const stages: Stage[] = [];
  let from: TraceRef | null = null;
  for (const turn of turns) {
    if (turn.kind !== 'end') from ??= turn;
    else if (from !== null) {
      stages.push({ from, to: turn });
      from = null;
    }
  }
  return from === null ? stages : [...stages, { from, to: null }];
}
