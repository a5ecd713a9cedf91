import { deviates } from '../../deviations/index.js';
import { nodeIndex, type TraceEvent } from '../../sim/index.js';
import type { Lock, TraceIndex, TraceRef } from './trace-index.js';

const MILLION = 1_000_000;

/** Something that was said of a process at a place of the trace, and holds until the next time. */
interface Note<T> extends TraceRef {
  readonly value: T;
}

/** Something that got in the way, and when it was over. */
export interface Trouble extends TraceRef {
  readonly untilUs: number;
}

/** The nodes that a client counts: each once for every place on its list. */
interface Listed {
  readonly nodes: readonly string[];
  readonly distinct: number;
  readonly majority: number;
}

/** What the world was like at any place of a trace: who was up, frozen, cut off, and what got in whose way. */
export class Conditions {
  readonly troubles: Trouble[] = [];
  private readonly record: TraceIndex;
  private readonly all: readonly string[];
  private readonly up = new Map<string, Note<boolean>[]>();
  private readonly frozen = new Map<string, Note<number>[]>();
  /** Machines that are suspended, with every process on them. */
  private readonly still = new Map<string, Note<number>[]>();
  private readonly refusing = new Map<string, Note<number>[]>();
  private readonly counted = new Map<string, Note<boolean>[]>();
  private readonly lists = new Map<string, Note<readonly string[]>[]>();
  /** By client and node, whichever way; and those that lose what is sent. */
  private readonly cuts: (Trouble & { readonly client: string; readonly node: string; readonly loses: boolean })[] = [];
  private readonly rates: Note<number>[] = [];
  private readonly setBacks: Note<number>[] = [];

  constructor(record: TraceIndex) {
    this.record = record;
    const { cluster, clients, views } = record.setup;
    this.all = Array.from({ length: cluster.nodes }, (_, i) => `n${i}`);
    for (const { ratePpm } of cluster.clocks) this.rates.push({ seq: -1, atUs: 0, value: ratePpm });
    for (const [i, { nodes }] of (views ?? []).entries()) {
      if (nodes !== undefined) note(this.lists, clients[i] ?? '', { seq: -1, atUs: 0, value: nodes });
    }
    for (const event of record.events) this.take(event);
  }

  private take(event: TraceEvent): void {
    const { kind, process, detail, atUs, seq } = event;
    const set = <T>(notes: Map<string, Note<T>[]>, value: T): void => note(notes, process, { seq, atUs, value });
    const untilUs = Number(detail.untilUs ?? atUs);
    switch (kind) {
      case 'crash':
      case 'client-crash':
        set(this.up, false);
        set(this.frozen, -1);
        break;
      case 'restart':
        set(this.up, true);
        // Who is started on a machine that is suspended waits until it goes on.
        set(this.frozen, last(this.still, process, seq) ?? -1);
        // Nothing gets in the way where a client comes back.
        if (this.isNode(process)) break;
        return;
      case 'failover':
        set(this.up, true);
        set(this.frozen, -1);
        break;
      case 'suspend':
      case 'pause':
        if (kind === 'suspend') set(this.still, Math.max(untilUs, last(this.still, process, seq) ?? -1));
        if (this.isUp(process, seq)) set(this.frozen, Math.max(untilUs, this.frozenUntil(process, seq)));
        if (detail.stops === 'all' && this.isNode(process)) this.setBacks.push({ seq, atUs, value: untilUs - atUs });
        break;
      case 'error-replies':
        set(this.refusing, untilUs);
        break;
      case 'partition':
        this.cut(event);
        break;
      case 'clock-drift':
        this.rates.push({ seq, atUs, value: Number(detail.ratePpm) });
        break;
      case 'clock-step':
        if (this.isNode(process)) this.setBacks.push({ seq, atUs, value: Math.max(0, -Number(detail.byUs)) });
        break;
      case 'reconfigure':
        set(this.lists, detail.nodes as readonly string[]);
        break;
      case 'counter-set':
        if (deviates(this.record.setup.policy, 'counter-kept', 'counter-from-zero')) return;
        if (this.counts(process, seq) === Number(detail.counter) >= 0) return;
        set(this.counted, Number(detail.counter) >= 0);
        break;
      case 'data-loss':
        break;
      default:
        return;
    }
    this.troubles.push({ seq, atUs, untilUs });
  }

  private cut({ seq, atUs, detail }: TraceEvent): void {
    const [from, to] = [detail.from as readonly string[], detail.to as readonly string[]];
    for (const client of this.record.setup.clients) {
      const others = from.includes(client) ? to : to.includes(client) ? from : [];
      for (const node of others.filter((it) => this.isNode(it))) {
        this.cuts.push({ seq, atUs, untilUs: Number(detail.untilUs), client, node, loses: detail.holds !== 1 });
      }
    }
  }

  isNode(process: string): boolean {
    return nodeIndex(process) >= 0 && !this.record.setup.clients.includes(process);
  }

  // ——— what was so before a place of the trace ———

  isUp(process: string, seq: number): boolean {
    return last(this.up, process, seq) ?? true;
  }

  frozenUntil(process: string, seq: number): number {
    return last(this.frozen, process, seq) ?? -1;
  }

  private counts(node: string, seq: number): boolean {
    return last(this.counted, node, seq) ?? true;
  }

  /** The nodes that a client was told of. */
  told(client: string, seq: number): Listed {
    return listed(last(this.lists, client, seq) ?? this.all);
  }

  /** The nodes of the list that a lock went by: what its client knew, or was connected to, at its call. */
  list({ client, call }: Lock): Listed {
    const told = this.told(client, call.seq);
    if (this.record.setup.policy.habits.nodesFrom !== 'connected') return told;
    const there = told.nodes.filter((node) => {
      const isCut = this.cuts.some(
        (it) => it.loses && it.client === client && it.node === node && it.seq < call.seq && call.atUs < it.untilUs,
      );
      return this.isUp(node, call.seq) && !isCut;
    });
    return there.length === 0 ? told : listed(there);
  }

  /** Nodes of a lock's list that are up, answer, and can be reached from it. */
  usable(lock: Lock, atUs: number, seq: number): string[] {
    return [...new Set(this.list(lock).nodes)].filter((node) => {
      const isCut = this.cuts.some(
        (it) => it.client === lock.client && it.node === node && it.seq < seq && it.untilUs > atUs,
      );
      const isBusy = this.frozenUntil(node, seq) > atUs || (last(this.refusing, node, seq) ?? 0) > atUs;
      return this.isUp(node, seq) && this.counts(node, seq) && !isBusy && !isCut;
    });
  }

  /** Rate of the slowest clock so far, as a share of a right one's; never more than 1. */
  slowness(seq: number): number {
    return 1 + Math.min(0, ...this.rates.filter((it) => it.seq < seq).map(({ value }) => value)) / MILLION;
  }

  /** What clocks of nodes were set or held back in all, µs. */
  setBackUs(seq: number): number {
    return this.setBacks.filter((it) => it.seq < seq).reduce((sum, { value }) => sum + value, 0);
  }

  /** When a process that counts `us` from `atUs` is done at the latest, as far as clocks are known; roundings included. */
  after(atUs: number, us: number, seq: number): number {
    const slowness = this.slowness(seq);
    return slowness === 1 ? atUs + us : atUs + Math.ceil(us / slowness) + 2;
  }
}

function listed(nodes: readonly string[]): Listed {
  const distinct = new Set(nodes).size;
  return { nodes, distinct, majority: Math.floor(distinct / 2) + 1 };
}

function note<T>(notes: Map<string, Note<T>[]>, process: string, it: Note<T>): void {
  const all = notes.get(process);
  if (all === undefined) notes.set(process, [it]);
  else all.push(it);
}

function last<T>(notes: Map<string, Note<T>[]>, process: string, seq: number): T | undefined {
  return notes.get(process)?.findLast((it) => it.seq < seq)?.value;
}
