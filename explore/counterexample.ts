import type { Command } from '../core/index.js';
import { choiceOf } from '../deviations/index.js';
import type { ClientPlan, Fate, Fault, LockPlan, Schedule } from '../scenarios/index.js';
import { nodeName } from '../sim/index.js';
import { type Action, ActionKind, partsOf } from './action.js';
import { type ExploreScope, TICK_US } from './bounds.js';
import { CALL, EXTEND, PAUSE, RELEASE, RESUME } from './locks.js';
import { StateModel } from './world.js';

/** A message on its way, as the schedule addresses it. */
interface Travelling {
  readonly fate: Fate;
  readonly sentUs: number;
}

/**
 * The schedule that a way through a bounded world plays: what happens within one tick of that world happens in the same
 * millisecond, each thing at a microsecond of its own. Nodes and clients count whole milliseconds, so that they see no
 * more of the time than the ticks. It is a file like any other, and replays in the simulator.
 */
export function scheduleOf(bounds: ExploreScope, path: readonly Action[]): Schedule {
  return new Writer(bounds).write(path);
}

/** One way, of messages that have no fate of their own. */
const DELAY_US = 1;

/** Attempts of a client that one way may contain; there is a bit for each. */
const MOST_ATTEMPTS = 30;

class Writer {
  private readonly world: StateModel;
  private state: Uint16Array;
  private tick = 0;
  /** Grows with every action, so that a timer that an earlier action armed is due before all else in its tick. */
  private moment = 0;
  private readonly faults: Fault[] = [];
  private readonly fates: Fate[] = [];
  private readonly requests = new Map<string, Travelling[]>();
  private readonly replies = new Map<string, Travelling[]>();
  private readonly sends = new Map<string, number>();
  private readonly plans: Draft[];
  private readonly downSince = new Map<number, number>();
  private readonly pausedAt = new Map<number, number>();

  constructor(bounds: ExploreScope) {
    this.world = new StateModel(bounds, 'none', false, MOST_ATTEMPTS);
    this.state = this.world.initial();
    this.plans = Array.from({ length: bounds.clients }, () => ({
      atUs: null,
      claimedAt: null,
      holdUs: null,
      extensions: [],
      stepsUs: 0,
    }));
  }

  write(path: readonly Action[]): Schedule {
    for (const action of path) this.play(action);
    const { bounds, policy } = this.world;
    const untilUs = (this.tick + 1) * TICK_US;
    for (const [node, atUs] of this.downSince) this.crash(node, atUs, null);
    for (const [client, atUs] of this.pausedAt) this.pause(client, atUs, untilUs - atUs);
    for (const travelling of [...this.requests.values(), ...this.replies.values()].flat()) {
      this.fates.push({ ...travelling.fate, lost: true });
    }
    return {
      schema: 'lockstep.schedule/2',
      cluster: {
        nodes: bounds.nodes,
        delayUs: DELAY_US,
        distances: [],
        link: bounds.link,
        expiry: 'at',
        resolutionUs: TICK_US,
        persistence: bounds.rollbacks > 0 ? 'always' : 'none',
        replicaLagUs: null,
        clocks: [],
      },
      policy: choiceOf(policy),
      clients: this.plans.map((draft, client) => this.clientPlan(draft, client)),
      faults: this.faults.toSorted((a, b) => a.atUs - b.atUs),
      fates: this.fates,
      untilUs,
    };
  }

  private clientPlan(draft: Draft, client: number): ClientPlan {
    const { ttl } = this.world.bounds;
    const locks: LockPlan[] =
      draft.atUs === null
        ? []
        : [
            {
              atUs: draft.atUs,
              resources: ['r'],
              ttlMs: ttl,
              holdUs: draft.holdUs,
              extensions: draft.extensions.map((afterUs) => ({ afterUs, ttlMs: ttl })),
              writes: [],
              jitterPpm: [],
            },
          ];
    const { bounds, sets } = this.world;
    const nodes = bounds.change === null ? {} : { nodes: sets.sets[client]?.map(nodeName) ?? [] };
    return { id: clientName(client), ...nodes, locks };
  }

  private play(action: Action): void {
    this.moment++;
    const before = this.state;
    let taken: Uint16Array | null = null;
    this.world.successors(before, (candidate) => {
      if (candidate === action) taken = Uint16Array.from(this.world.next);
    });
    if (taken === null) throw new RangeError('the way does not lead through this world');
    this.state = taken;
    const { kind, client, node, detail } = partsOf(action);
    switch (kind) {
      case ActionKind.call:
        this.call(before, client, detail);
        break;
      case ActionKind.timer:
        this.sent(before, client, this.world.locks.timerEvent(detail));
        break;
      case ActionKind.request:
      case ActionKind.loseRequest:
        this.request(before, client, node, detail, kind === ActionKind.loseRequest);
        break;
      case ActionKind.reply:
      case ActionKind.loseReply:
        this.reply(before, client, node, detail, kind === ActionKind.loseReply);
        break;
      case ActionKind.crash:
        this.crashed(node);
        break;
      case ActionKind.rollBack:
        this.faults.push({
          kind: 'crash',
          node: nodeName(node),
          atUs: this.nowUs,
          restartAfterUs: 0,
          ageUs: this.nowUs,
        });
        break;
      case ActionKind.change:
        for (const it of this.world.sets.off) this.downSince.set(it, this.downSince.get(it) ?? this.nowUs);
        break;
      case ActionKind.tick:
        this.ticked();
        break;
      case ActionKind.drift:
        this.ticked();
        this.drifted(client, detail);
        break;
    }
    this.noteClaims(before);
  }

  private get nowUs(): number {
    return this.tick * TICK_US + this.moment;
  }

  private call(before: Uint16Array, client: number, event: number): void {
    const draft = this.plans[client];
    if (draft === undefined) return;
    const claimedAt = draft.claimedAt ?? 0;
    const sinceClaim = this.nowUs + draft.stepsUs - claimedAt;
    if (event === CALL) {
      draft.atUs = this.nowUs;
      // Votes that are granted at once come after two delays of the cluster.
      if (this.world.bounds.votes === 'granted') this.moment += 2 * DELAY_US;
    } else if (event === RELEASE) draft.holdUs = sinceClaim;
    else if (event === EXTEND) draft.extensions.push(sinceClaim);
    else if (event === PAUSE) this.pausedAt.set(client, this.nowUs);
    else if (event === RESUME) {
      const since = this.pausedAt.get(client) ?? this.nowUs;
      this.pausedAt.delete(client);
      this.pause(client, since, this.nowUs - since);
    }
    this.sent(before, client, event);
  }

  /** Notes what a client sent on an event. */
  private sent(before: Uint16Array, client: number, event: number): void {
    for (const { node: place, command } of this.world.locks.sends(before[client] ?? 0, event)) {
      const node = this.world.sets.nodeAt(client, place);
      const it = this.world.commands.at(command);
      const fate = { ...address(client, node, it), send: this.sendNumber(client, node, it) };
      list(this.requests, linkKey(client, node, command)).push({ fate, sentUs: this.nowUs });
    }
  }

  /** How many times this command went to this node before. */
  private sendNumber(client: number, node: number, { operation, attempt, round }: Command): number {
    const key = `${client} ${node} ${operation} ${attempt} ${round}`;
    const number = this.sends.get(key) ?? 0;
    this.sends.set(key, number + 1);
    return number;
  }

  private request(before: Uint16Array, client: number, node: number, place: number, lost: boolean): void {
    const { world } = this;
    const link = world.links.at(before[world.linkAt(client, node)] ?? 0);
    const command = link.requests[place] ?? 0;
    const key = linkKey(client, node, command);
    const travelling = list(this.requests, key).shift();
    if (travelling === undefined) return;
    this.fates.push({ ...travelling.fate, ...this.journey(travelling, lost) });
    const arrived = !lost && world.nodes.at(before[world.firstNode + node] ?? 0).down === 0;
    if (!arrived) return;
    const fate: Fate = { ...travelling.fate, direction: 'reply' };
    list(this.replies, key).push({ fate, sentUs: this.nowUs });
  }

  private reply(before: Uint16Array, client: number, node: number, place: number, lost: boolean): void {
    const { world } = this;
    const link = world.links.at(before[world.linkAt(client, node)] ?? 0);
    const reply = link.replies[place] ?? 0;
    const travelling = list(this.replies, linkKey(client, node, world.commands.reply(reply).command)).shift();
    if (travelling === undefined) return;
    this.fates.push({ ...travelling.fate, ...this.journey(travelling, lost) });
    if (!lost) this.sent(before, client, world.locks.replyEvent(world.sets.placeOf(client, node), reply));
  }

  private journey({ sentUs }: Travelling, lost: boolean): Pick<Fate, 'lost' | 'delayUs'> {
    return lost ? { lost: true } : { delayUs: this.nowUs - sentUs };
  }

  private crashed(node: number): void {
    const { restartDelay } = this.world.bounds;
    if (restartDelay === 0) this.crash(node, this.nowUs, 0);
    else this.downSince.set(node, this.nowUs);
  }

  private crash(node: number, atUs: number, restartAfterUs: number | null): void {
    this.faults.push({ kind: 'crash', node: nodeName(node), atUs, restartAfterUs });
    // Where nodes have disks, so that they can be rolled back, one that forgets has lost its disk too.
    if (this.world.bounds.rollbacks === 0 || restartAfterUs === null) return;
    this.faults.push({ kind: 'data-loss', node: nodeName(node), atUs: atUs + restartAfterUs });
  }

  private pause(client: number, atUs: number, forUs: number): void {
    this.faults.push({ kind: 'pause', process: clientName(client), atUs, forUs });
  }

  private ticked(): void {
    this.tick++;
    const { world } = this;
    for (const [node, sinceUs] of this.downSince) {
      if (world.nodes.at(this.state[world.firstNode + node] ?? 0).down !== 0) continue;
      this.downSince.delete(node);
      this.crash(node, sinceUs, this.tick * TICK_US - sinceUs);
    }
  }

  /** A clock went on by no tick or by two: it jumps as the tick begins. */
  private drifted(process: number, ticks: number): void {
    const { clients } = this.world.bounds;
    const byUs = (ticks - 1) * TICK_US;
    const name = process < clients ? clientName(process) : nodeName(process - clients);
    const draft = this.plans[process];
    if (draft !== undefined) draft.stepsUs += byUs;
    this.faults.push({ kind: 'clock-step', process: name, atUs: this.tick * TICK_US, byUs });
  }

  private noteClaims(before: Uint16Array): void {
    const { locks } = this.world;
    for (const [client, draft] of this.plans.entries()) {
      const was = locks.at(before[client] ?? 0).lock.phase;
      const held = locks.at(this.state[client] ?? 0).lock.phase === 'held';
      if (held && was !== 'held') draft.claimedAt = this.nowUs + draft.stepsUs;
    }
  }
}

/** What a client does in the end. Readings are on its own clock. */
interface Draft {
  atUs: number | null;
  claimedAt: number | null;
  holdUs: number | null;
  readonly extensions: number[];
  stepsUs: number;
}

function address(client: number, node: number, { operation, attempt, round }: Command): Fate {
  return {
    client: clientName(client),
    attempt,
    operation,
    ...(operation === 'extend' || round > 0 ? { round } : {}),
    node: nodeName(node),
    direction: 'request',
  };
}

function clientName(client: number): string {
  return `c${client + 1}`;
}

function linkKey(client: number, node: number, command: number): string {
  return `${client} ${node} ${command}`;
}

function list(map: Map<string, Travelling[]>, key: string): Travelling[] {
  let travelling = map.get(key);
  if (travelling === undefined) {
    travelling = [];
    map.set(key, travelling);
  }
  return travelling;
}
