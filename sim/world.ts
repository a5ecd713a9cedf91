import type { Command, LocalTime, NodeSet } from '../core/index.js';
import type { Policy } from '../deviations/index.js';
import type { Fault } from '../scenarios/index.js';
import type { Adversary, DecisionPoint } from './adversary.js';
import { SimClient } from './client.js';
import type { ClientFactory, ClientHost, ClientProcess } from './client-process.js';
import type { Clock } from './clock.js';
import { Exchange } from './exchange.js';
import { Faults } from './faults.js';
import { Links } from './links.js';
import type { Control, Message, RemoteCall } from './message.js';
import type { SimNode } from './node.js';
import type { Observer, WatchedWorld } from './observer.js';
import { PlannedFault } from './planned-fault.js';
import type { Process } from './process.js';
import { callRank, EventKind, Queue, type QueueEvent, rankOf, TieRank } from './queue.js';
import { ProtectedResource } from './resource.js';
import { RunContext } from './run-context.js';
import { Seats } from './seats.js';
import type { SimLock } from './sim-lock.js';
import { after, inFuture, type TrueTime, trueTime } from './time.js';
import { Kind } from './trace.js';
import type { Setup, WorldView } from './view.js';

/**
 * Events for each client within a stretch of true time, µs, after which a run is taken for endless: where messages take
 * next to no time, a client that tries again at once hardly lets time go on.
 */
const MOST_EVENTS = 20_000;
const STRETCH_US = 100_000;

function mostEvents(clients: number): number {
  return MOST_EVENTS * Math.max(1, clients);
}

/** The slot of a {@link Control} that is still to be sent. */
const WAITING = 1;

/** A fault and its restart take two places each in the order of their instant. */
const PLACES_PER_FAULT = 2;

/**
 * The simulated world: one queue, true time, nodes, clients, and an adversary who makes the choices. Synchronous and
 * deterministic: the same set-up and the same choices give the same trace.
 */
export class World implements WorldView, WatchedWorld, ClientHost {
  setup: Setup;
  readonly context: RunContext;
  readonly nodes: readonly SimNode[] = [];
  readonly clients: readonly ClientProcess[] = [];
  policy: Policy;
  /** How many events were handled. */
  events = 0;
  private adversary: Adversary;
  private readonly queue: Queue = new Queue();
  private readonly links: Links;
  private readonly exchange: Exchange;
  private readonly faults: Faults;
  private readonly resource: ProtectedResource;
  private readonly seats: Seats;
  /** Those of earlier runs as well, to be used again. */
  private readonly planned: PlannedFault[] = [];
  isStuck = false;
  /** When the stretch ends in which events are being counted, and how many may have been handled by then. */
  private stretchEnd = STRETCH_US;
  private mostEvents: number;
  private faultCount = 0;
  private order = 0;
  private started = false;

  /** @param seatClient - What kind of clients there are; those that run the lock of `core` where left out. */
  constructor(
    setup: Setup,
    adversary: Adversary,
    observer: Observer,
    keepTrace: boolean,
    seatClient: ClientFactory = (seat) => new SimClient(seat),
  ) {
    this.setup = setup;
    this.mostEvents = mostEvents(setup.clients.length);
    this.policy = setup.policy;
    this.adversary = adversary;
    this.context = new RunContext(setup.clients, observer, keepTrace);
    this.seats = new Seats(this.context, this, (node, at) => this.pushExpiry(node, at), seatClient);
    this.resource = new ProtectedResource(setup.resource, setup.policy);
    this.links = new Links(this, adversary, this.context, this.queue);
    this.exchange = new Exchange(this, this.context, this.links, this.queue);
    this.faults = new Faults(this, this.context, this.links, (planned, at, sameInstant) =>
      this.pushRestart(planned, at, sameInstant),
    );
    this.seats.fill(setup, this.nodes as SimNode[], this.clients as ClientProcess[]);
  }

  /**
   * As a new world with clients of the same kind. Whatever was there is used again, so that nothing that came of an earlier run
   * may be looked at any more but what it has handed out: its kept trace, and what observers wrote down.
   */
  reset(setup: Setup, adversary: Adversary, observer: Observer, keepTrace: boolean): void {
    this.setup = setup;
    this.policy = setup.policy;
    this.adversary = adversary;
    this.events = 0;
    this.isStuck = false;
    this.stretchEnd = STRETCH_US;
    this.mostEvents = mostEvents(setup.clients.length);
    this.faultCount = 0;
    this.order = 0;
    this.started = false;
    this.context.reset(setup.clients, observer, keepTrace);
    this.resource.reset(setup.resource, setup.policy);
    this.queue.reset();
    this.links.reset(adversary);
    this.exchange.reset();
    this.faults.reset();
    this.seats.fill(setup, this.nodes as SimNode[], this.clients as ClientProcess[]);
  }

  get now(): TrueTime {
    return this.context.now;
  }

  ownerOf(token: number): SimLock | null {
    return this.context.ownerOf(token);
  }

  resourceOf(key: number): string {
    return this.context.resourceOf(key);
  }

  /** Runs to the end of the schedule, or until time does not go on ({@link isStuck}). */
  run(): void {
    this.begin();
    while (this.advance());
    this.finish();
  }

  /** Lets clients and the adversary plan: {@link advance} and {@link finish} come after. */
  begin(): void {
    this.context.observer.begins(this);
    this.openMoment('start', null);
    for (const client of this.clients) this.askForWork(client);
    this.started = true;
  }

  /** Lets the next thing happen; says whether there was one before the end. */
  advance(): boolean {
    const event = this.queue.pop();
    if (event === undefined) return false;
    const { context } = this;
    if (event.at > context.now) {
      if (event.at > this.setup.untilUs) return false;
      context.now = event.at;
      if (event.at >= this.stretchEnd) this.beginStretch(event.at);
    } else if (this.events > this.mostEvents) {
      this.isStuck = true;
      return false;
    }
    this.dispatch(event);
    return true;
  }

  private beginStretch(at: TrueTime): void {
    this.stretchEnd = at + STRETCH_US;
    this.mostEvents = this.events + mostEvents(this.clients.length);
  }

  /** The run is over. */
  finish(): void {
    if (!this.isStuck) this.context.now = trueTime(this.setup.untilUs);
    this.context.observer.finished(this.context.now);
  }

  private dispatch(event: QueueEvent): void {
    const { process } = event;
    if (process !== null && process.pausedUntil > event.at) {
      this.queue.putOff(event, process, this.order++);
      return;
    }
    this.context.cause = event.cause;
    if (this.handle(event, event.subject)) this.events++;
    this.queue.recycle(event);
  }

  /** Does what the event says; says whether there was anything to do, or the event was overtaken by others. */
  private handle(event: QueueEvent, subject: object | null): boolean {
    switch (event.kind) {
      case EventKind.request:
        this.exchange.deliverRequest(subject as Message, event.process as SimNode, event.index, event.life);
        return true;
      case EventKind.reply:
        this.exchange.deliverReply(subject as Message, event.process as ClientProcess, event.answer, event.counter);
        return true;
      case EventKind.timer: {
        const client = event.process as ClientProcess;
        return !client.down && subject !== null && client.wake(subject, event);
      }
      case EventKind.expiry:
        return (subject as SimNode).expire(event);
      case EventKind.call: {
        const client = event.process as ClientProcess;
        const lock = subject as SimLock;
        if (client.down || lock.life >= 0) return false;
        this.call(client, lock);
        break;
      }
      case EventKind.write:
        this.deliverWrite(subject as SimLock, event.index);
        break;
      case EventKind.fault:
        this.faults.strike(subject as PlannedFault);
        break;
      case EventKind.answer:
        return this.exchange.answer(subject as Message, event, event.process as SimNode);
      case EventKind.resend:
        return this.exchange.resend(subject as Message, event.process as ClientProcess);
      case EventKind.control: {
        const control = subject as Control;
        if (event.slot === WAITING && control.isOfNode !== true) this.sendControl(control);
        else control.arrive();
        break;
      }
      case EventKind.restart:
        return this.faults.restart(subject as PlannedFault);
    }
    return true;
  }

  private put(kind: EventKind, at: TrueTime, rank: number, process: Process | null, subject: object): QueueEvent {
    const event = this.queue.blank(kind, at, rank, process, subject);
    event.cause = this.context.cause;
    return event;
  }

  // ——— choices of the adversary ———

  private askForWork(client: ClientProcess): void {
    for (;;) {
      const plan = this.adversary.nextLock(client.index, this);
      if (plan === null) return;
      const lock = client.plan(plan);
      this.pushCall(client, lock, inFuture(plan.atUs, this.now, this.started));
    }
  }

  private pushCall(client: ClientProcess, lock: SimLock, at: TrueTime): void {
    const rank = callRank(client.index, lock.number);
    const event = this.put(EventKind.call, at, rank, client, lock);
    event.cause = -1;
    this.queue.push(event);
  }

  /** A new process goes on where the dead one was: calls that it missed are late, what it had asked for is gone. */
  restarted(client: ClientProcess): void {
    for (const lock of client.locks)
      if (lock.life < 0 && lock.plan.atUs < this.now) this.pushCall(client, lock, this.now);
    this.askForWork(client);
  }

  private call(client: ClientProcess, lock: SimLock): void {
    // Numbered when they are first used: when they were planned may differ between a drawn run and its replay.
    lock.life = client.life;
    lock.resources = lock.plan.resources.map((resource) => this.context.keyOf(resource));
    const { keyPrefix } = client;
    lock.keys =
      keyPrefix === ''
        ? lock.resources
        : lock.plan.resources.map((resource) => this.context.keyOf(keyPrefix + resource));
    lock.list =
      this.policy.habits.nodesFrom === 'connected' ? this.links.connected(client.index, client.list) : client.list;
    client.acquire(lock);
  }

  private openMoment(moment: DecisionPoint, lock: SimLock | null): void {
    for (;;) {
      const fault = this.adversary.nextFault(moment, lock, this);
      if (fault === null) return;
      const planned = this.plan(fault);
      const edge = fault.edge === 'after' ? TieRank.after : TieRank.before;
      const at = inFuture(fault.atUs, this.now, this.started && edge === TieRank.before);
      const event = this.put(EventKind.fault, at, rankOf(edge, PLACES_PER_FAULT * planned.index), null, planned);
      event.cause = -1;
      this.queue.push(event);
    }
  }

  private plan(fault: Fault): PlannedFault {
    const index = this.faultCount++;
    const { planned } = this;
    if (index >= planned.length) planned.push(new PlannedFault(fault, index));
    const it = planned[index] as PlannedFault;
    it.reset(fault, index);
    this.faults.find(it);
    return it;
  }

  private pushRestart(planned: PlannedFault, at: TrueTime, sameInstant: boolean): void {
    const edge = sameInstant && planned.fault.edge === 'after' ? TieRank.after : TieRank.before;
    this.queue.push(this.put(EventKind.restart, at, rankOf(edge, PLACES_PER_FAULT * planned.index + 1), null, planned));
  }

  // ——— messages and writes ———

  send(lock: SimLock, to: NodeSet, command: Command, remote: RemoteCall | null = null): void {
    this.exchange.send(lock, to, command, remote);
  }

  sendControl(control: Control, afterUs = 0): void {
    if (afterUs > 0) {
      const at = after(this.now, afterUs);
      const process = control.isOfNode === true ? (this.nodes[control.node] ?? null) : null;
      const event = this.put(EventKind.control, at, this.links.nextRank(), process, control);
      event.slot = WAITING;
      this.queue.push(event);
      return;
    }
    const client = this.clients[control.client] ?? null;
    const node = control.isForKernel ? null : (this.nodes[control.node] ?? null);
    this.links.sendControl(control, control.direction === 'request' ? node : client);
  }

  tell(message: Message, told: number): void {
    this.exchange.tell(message, told);
  }

  /** Whether what comes next comes in this instant, and is something that a process reads from the network. */
  isNextRead(process: object): boolean {
    const next = this.queue.head;
    if (next === undefined || next.at !== this.now || next.process !== process) return false;
    return next.kind === EventKind.reply || next.kind === EventKind.control || next.kind === EventKind.resend;
  }

  sendWrite(lock: SimLock, index: number): void {
    const plan = lock.plan.writes[index];
    if (plan === undefined) return;
    const { context } = this;
    context.called(Kind['write-sent'], lock);
    const rank = this.links.nextRank();
    const event = this.put(EventKind.write, after(context.now, plan.delayUs), rank, null, lock);
    event.index = index;
    this.queue.push(event);
  }

  private deliverWrite(lock: SimLock, index: number): void {
    this.context.written(lock, index, this.resource.take(lock, index));
  }

  // ——— timers and expiries ———

  pushTimer(client: ClientProcess, subject: object, slot: number, at: LocalTime, clock: Clock): QueueEvent {
    const due = clock.when(at, this.now);
    const event = this.put(EventKind.timer, due, rankOf(TieRank.timer, this.order++), client, subject);
    event.slot = slot;
    event.local = at;
    this.queue.push(event);
    return event;
  }

  private pushExpiry(node: SimNode, at: LocalTime): QueueEvent {
    const due = node.clock.when(at, this.now);
    const event = this.put(EventKind.expiry, due, rankOf(TieRank.timer, this.order++), null, node);
    this.queue.push(event);
    return event;
  }

  // ——— what clients report ———

  jitterPpm(lock: SimLock, attempt: number): number {
    return this.adversary.jitterPpm(lock.client.index, lock.number, attempt);
  }

  attempted(lock: SimLock): void {
    this.context.attempted(lock);
    this.openMoment('attempt', lock);
  }

  claimed(lock: SimLock): void {
    this.openMoment('claim', lock);
  }

  finished(lock: SimLock): void {
    const client = this.clients[lock.client.index];
    if (client !== undefined && !client.down) this.askForWork(client);
  }
}
