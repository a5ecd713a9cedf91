import type { Habits } from '../../deviations/index.js';
import { clockOf, nodeIndex, type Setup, type TraceEvent } from '../../sim/index.js';
import { ClockLine } from './clock-line.js';

/** Something with a place in the trace. */
export interface TraceRef {
  readonly seq: number;
  readonly atUs: number;
}

/** A command that left for a node. */
export interface Sent extends TraceRef {
  readonly node: number;
  readonly localUs: number;
  readonly cause: number;
}

/** A round of extension. */
interface Round extends TraceRef {
  readonly localUs: number;
  readonly ttlMs: number;
  /** The nodes that carried it out. */
  readonly done: Set<number>;
}

/** What a client was told: that a SET was granted, that a release deleted the key, or that it found nothing. */
interface Heard extends TraceRef {
  readonly node: number;
  readonly what: 'granted' | 'deleted' | 'nothing';
}

const HEARD: { readonly [operationAndAnswer: string]: Heard['what'] } = {
  'acquire yes': 'granted',
  'release yes': 'deleted',
  'release no': 'nothing',
};

/** One attempt of one lock: what went over the network for it. Attempts are numbered from 0, and each sends something. */
export interface Attempt {
  readonly lock: Lock;
  readonly token: number;
  readonly ttlMs: number;
  readonly asked: Sent[];
  /** Nodes that carried out its SET. */
  readonly voted: Set<number>;
  readonly rounds: Round[];
  readonly released: Sent[];
  /** Releases that nodes carried out. */
  readonly emptied: (TraceRef & { readonly node: number })[];
  readonly heard: Heard[];
  /** When it first asked about counters. */
  asksCounter: TraceRef | null;
}

/** What a client was told, or did, about a lock that it takes for its own. */
export interface Turn extends TraceRef {
  readonly kind: 'claim' | 'extended' | 'end';
  readonly localUs: number;
  /** For all but the end: the deadline on the client's clock, and the nodes that it counts as votes. */
  readonly deadline: number;
  readonly granted: number;
  readonly token: number;
  /** Of its fencing token; 0 where it has none. */
  readonly counter: number;
  /** The attempt and the round of that moment. */
  readonly attempt: Attempt | undefined;
  readonly voted: ReadonlySet<number>;
}

/** The call that asks for a lock. */
interface Call extends TraceRef {
  readonly localUs: number;
  readonly ttlMs: number;
  /** When its owner means to give it back, µs after the claim; `null` for never. */
  readonly holdUs: number | null;
}

/** One acquisition of one client. */
export interface Lock {
  readonly client: string;
  readonly call: Call;
  /** How many different nodes its client knew of when it asked; those that it was connected to, where it asks only them. */
  nodes: number;
  readonly resources: readonly string[];
  readonly attempts: Attempt[];
  readonly turns: Turn[];
  failed: (TraceRef & { readonly localUs: number; readonly reason: string }) | null;
  readonly releaseCalls: TraceRef[];
  /** When its release returned. */
  released: TraceRef | null;
  readonly writes: (TraceRef & { readonly accepted: boolean })[];
}

/** A key that came to a node or left it. */
export interface KeyChange extends TraceRef {
  readonly node: number;
  readonly resource: string;
  readonly token: number;
  readonly how: string;
  readonly cause: number;
}

/** A run as its trace tells it, put in order for looking things up. */
export class TraceIndex {
  readonly setup: Setup;
  readonly endUs: number;
  readonly events: readonly TraceEvent[];
  readonly locks: Lock[] = [];
  readonly attempts: Attempt[] = [];
  readonly keys: KeyChange[] = [];
  readonly clocks: Map<string, ClockLine> = new Map();
  /** Sequence numbers of executions, with the token of their command. */
  readonly executions: Map<number, TraceEvent> = new Map();
  private readonly keysByToken = new Map<number, KeyChange[]>();
  private readonly byName = new Map<string, Lock>();
  private readonly byToken = new Map<number, Lock>();
  /** By client: how many different nodes it knows of, where it was told. */
  private readonly nodesOf = new Map<string, number>();

  /** `events` is a whole trace; `endUs` is the true time at which the run ended. */
  constructor(setup: Setup, events: readonly TraceEvent[], endUs: number) {
    this.setup = setup;
    this.endUs = endUs;
    this.events = events;
    for (const name of [...setup.clients, ...Array.from({ length: setup.cluster.nodes }, (_, i) => `n${i}`)]) {
      const { offsetUs, ratePpm } = clockOf(setup, name);
      this.clocks.set(name, new ClockLine(offsetUs, ratePpm));
    }
    for (const [i, { nodes }] of (setup.views ?? []).entries()) {
      if (nodes !== undefined) this.nodesOf.set(setup.clients[i] ?? '', new Set(nodes).size);
    }
    for (const event of events) this.take(event);
  }

  clock(process: string): ClockLine {
    return this.clocks.get(process) ?? new ClockLine(0, 0);
  }

  /** The lock that a token was first used for. */
  ownerOf(token: number): Lock | undefined {
    return this.byToken.get(token);
  }

  private take(event: TraceEvent): void {
    const { kind, seq, atUs, detail } = event;
    switch (kind) {
      case 'call':
        this.open(event);
        break;
      case 'send':
      case 'lost':
        if ('answer' in detail) this.answered(event);
        else this.sent(event);
        break;
      case 'execute':
        this.executions.set(seq, event);
        break;
      case 'reply':
        this.heard(event);
        break;
      case 'claim':
      case 'extended':
        this.turn(event, kind);
        break;
      case 'acquire-failed': {
        const lock = this.lockOf(event.process, Number(detail.lock));
        if (lock !== undefined) lock.failed = { ...event, reason: String(detail.reason) };
        break;
      }
      case 'expired':
      case 'release-call':
        if (kind === 'expired' || this.setup.policy.habits.beliefEnds === 'at-release') this.turn(event, 'end');
        if (kind === 'release-call') this.lockOf(event.process, Number(detail.lock))?.releaseCalls.push(event);
        break;
      case 'reconfigure':
        this.nodesOf.set(event.process, new Set(detail.nodes as readonly string[]).size);
        break;
      case 'released': {
        const lock = this.lockOf(event.process, Number(event.detail.lock));
        if (lock !== undefined) lock.released = event;
        if (this.setup.policy.habits.beliefEnds === 'after-release') this.turn(event, 'end');
        break;
      }
      case 'client-crash':
        for (const lock of this.locks) if (lock.client === event.process) this.end(lock, event);
        break;
      case 'write-arrived':
      case 'write-refused':
        this.lockOf(event.process, Number(detail.lock))?.writes.push({ seq, atUs, accepted: kind === 'write-arrived' });
        break;
      case 'clock-step':
        if (this.clockKind(event) === 'wall') {
          this.clock(event.process).stepped(atUs, seq, Number(detail.byUs));
        }
        break;
      case 'suspend':
        if (detail.stops === 'all' || this.clockKind(event) === 'monotonic') {
          this.clock(event.process).stopped(atUs, seq, Number(detail.untilUs));
        }
        break;
      case 'clock-drift':
        this.clock(event.process).paced(atUs, seq, Number(detail.ratePpm));
        break;
      case 'key-set':
      case 'key-gone':
        this.keyChanged(event);
        break;
      default:
    }
  }

  /** A node has a clock that can be set, a client the one that it reads. */
  private clockKind({ process }: TraceEvent): Habits['clock'] {
    const client = this.setup.clients.indexOf(process);
    return client < 0 ? 'wall' : (this.setup.views?.[client]?.timing?.clock ?? this.setup.policy.habits.clock);
  }

  private keyChanged({ seq, atUs, process, cause, detail }: TraceEvent): void {
    const token = Number(detail.token);
    const [key, how] = [String(detail.resource), String(detail.how)];
    const prefix = this.setup.views?.[this.setup.clients.indexOf(String(detail.owner))]?.keyPrefix ?? '';
    const resource = key.slice(prefix.length);
    const change: KeyChange = { seq, atUs, node: nodeIndex(process), resource, token, how, cause };
    this.keys.push(change);
    const same = this.keysByToken.get(token);
    if (same === undefined) this.keysByToken.set(token, [change]);
    else same.push(change);
  }

  /** What became of the keys with one token, in order. */
  keysOf(token: number): readonly KeyChange[] {
    return this.keysByToken.get(token) ?? [];
  }

  /** What the nodes call the resources of a lock. */
  keyNames({ client, resources }: Lock): string[] {
    const prefix = this.setup.views?.[this.setup.clients.indexOf(client)]?.keyPrefix ?? '';
    return resources.map((resource) => prefix + resource);
  }

  lockOf(client: string, number: number): Lock | undefined {
    return this.byName.get(`${client} ${number}`);
  }

  private open({ seq, atUs, localUs, process, detail }: TraceEvent): void {
    const holdUs = detail.holdUs === undefined ? null : Number(detail.holdUs);
    const lock: Lock = {
      client: process,
      call: { seq, atUs, localUs, ttlMs: Number(detail.ttlMs), holdUs },
      nodes: this.nodesOf.get(process) ?? this.setup.cluster.nodes,
      resources: detail.resources as readonly string[],
      attempts: [],
      turns: [],
      failed: null,
      releaseCalls: [],
      released: null,
      writes: [],
    };
    this.locks.push(lock);
    this.byName.set(`${process} ${Number(detail.lock)}`, lock);
  }

  private attemptOf({ detail }: TraceEvent): Attempt | undefined {
    const lock = this.lockOf(String(detail.client), Number(detail.lock));
    return lock?.attempts[Number(detail.attempt)];
  }

  private sent(event: TraceEvent): void {
    const { seq, atUs, localUs, cause, detail } = event;
    const lock = this.lockOf(event.process, Number(detail.lock));
    let attempt = this.attemptOf(event);
    if (lock === undefined) return;
    const token = Number(detail.token);
    // What the lock is told of; keys live longer where a lock delay is asked for.
    const ttlMs = Number(detail.ttlMs) - this.setup.policy.settings.lockDelayMs;
    if (attempt === undefined) {
      attempt = {
        lock,
        token,
        ttlMs,
        asked: [],
        voted: new Set(),
        rounds: [],
        released: [],
        emptied: [],
        heard: [],
        asksCounter: null,
      };
      lock.attempts.push(attempt);
      this.attempts.push(attempt);
      if (!this.byToken.has(token)) this.byToken.set(token, lock);
    }
    const sent: Sent = { seq, atUs, localUs, cause, node: nodeIndex(String(detail.node)) };
    if (detail.operation === 'acquire') attempt.asked.push(sent);
    else if (detail.operation === 'release') attempt.released.push(sent);
    else if (detail.operation === 'read-counter' || detail.operation === 'raise-counter') attempt.asksCounter ??= sent;
    else if (detail.operation === 'extend') {
      attempt.rounds[Number(detail.round)] ??= { seq, atUs, localUs, ttlMs, done: new Set() };
    }
  }

  /** A node's answer leaves it: this is where the trace says what came of an execution. */
  private answered(event: TraceEvent): void {
    const { detail } = event;
    const attempt = this.attemptOf(event);
    if (attempt === undefined) return;
    const node = nodeIndex(event.process);
    if (detail.operation === 'release' && detail.answer !== 'error') attempt.emptied.push({ node, ...markOf(event) });
    if (detail.answer !== 'yes') return;
    if (detail.operation === 'acquire') attempt.voted.add(node);
    else if (detail.operation === 'extend') attempt.rounds[Number(detail.round)]?.done.add(node);
  }

  /** An answer reaches its client. */
  private heard(event: TraceEvent): void {
    const { operation, answer, node } = event.detail;
    const what = HEARD[`${operation} ${answer}`];
    if (what !== undefined)
      this.attemptOf(event)?.heard.push({ what, node: nodeIndex(String(node)), ...markOf(event) });
  }

  private turn(event: TraceEvent, kind: Turn['kind']): void {
    const { seq, atUs, localUs, detail } = event;
    const lock = this.lockOf(event.process, Number(detail.lock));
    if (lock === undefined) return;
    if (kind === 'end') {
      this.end(lock, event);
      return;
    }
    if (this.setup.policy.habits.nodesFrom === 'connected') lock.nodes = Number(detail.nodes);
    const attempt = lock.attempts[lock.attempts.length - 1];
    const round = attempt?.rounds[attempt.rounds.length - 1];
    lock.turns.push({
      kind,
      seq,
      atUs,
      localUs,
      deadline: Number(detail.deadlineUs),
      granted: Number(detail.granted),
      token: Number(detail.token),
      counter: Number(detail.counter ?? 0),
      attempt,
      voted: new Set(kind === 'claim' ? attempt?.voted : round?.done),
    });
  }

  private end(lock: Lock, { seq, atUs, localUs }: TraceEvent): void {
    const rest = { deadline: 0, granted: 0, token: 0, counter: 0, attempt: undefined, voted: new Set<number>() };
    lock.turns.push({ kind: 'end', seq, atUs, localUs, ...rest });
  }
}

function markOf({ seq, atUs }: TraceEvent): TraceRef {
  return { seq, atUs };
}
