import { allNodes, later } from '../core/index.js';
import type {
  ClientCrash,
  ClockRate,
  ClockStep,
  Crash,
  DataLoss,
  ErrorReplies,
  Failover,
  Fault,
  Partition,
  Pause,
  ProcessName,
  Reconfigure,
  Suspend,
} from '../scenarios/index.js';
import type { ClientProcess } from './client-process.js';
import { keptUntil } from './disk.js';
import type { Links } from './links.js';
import type { SimNode } from './node.js';
import { NodeList } from './node-list.js';
import { nodeIndex } from './node-name.js';
import type { PlannedFault } from './planned-fault.js';
import type { Process } from './process.js';
import type { RunContext } from './run-context.js';
import { after, type TrueTime } from './time.js';
import { Kind } from './trace.js';
import type { WorldView } from './view.js';

/** Puts the return of a crashed process into the queue, in the crash's own class if it is in the same instant. */
type PlanRestart = (planned: PlannedFault, at: TrueTime, sameInstant: boolean) => void;

/** The name of the process that a fault is about; `null` of one that is about links. */
function targetOf(fault: Fault): ProcessName | null {
  switch (fault.kind) {
    case 'crash':
    case 'failover':
    case 'data-loss':
    case 'error-replies':
      return fault.node;
    case 'reconfigure':
    case 'client-crash':
      return fault.client;
    case 'partition':
      return null;
    default:
      return fault.process;
  }
}

/** Carries out faults on nodes, clients, clocks and links. */
export class Faults {
  private readonly view: WorldView;
  private readonly context: RunContext;
  private readonly links: Links;
  private readonly planRestart: PlanRestart;
  /** Crashes whose end the clock of their node tells. */
  private readonly waiting: PlannedFault[] = [];

  constructor(view: WorldView, context: RunContext, links: Links, planRestart: PlanRestart) {
    this.view = view;
    this.context = context;
    this.links = links;
    this.planRestart = planRestart;
  }

  /** Resets. */
  reset(): void {
    while (this.waiting.length > 0) this.waiting.pop();
  }

  /** Finds out which node or client a fault is about, once. */
  find(planned: PlannedFault): void {
    const name = targetOf(planned.fault);
    const node = name === null ? -1 : nodeIndex(name);
    if (name === null) planned.isAbout(-1, -1);
    else if (node >= 0 && node < this.view.nodes.length) planned.isAbout(node, -1);
    else planned.isAbout(-1, this.client(name)?.index ?? -1);
  }

  strike(planned: PlannedFault): void {
    const { fault, node: at, client: of } = planned;
    const { view, context } = this;
    const node = at < 0 ? undefined : view.nodes[at];
    const client = of < 0 ? undefined : view.clients[of];
    context.observer.faultStrikes(fault, context.now, at, of);
    switch (fault.kind) {
      case 'crash':
        this.crash(planned, node, fault);
        break;
      case 'failover':
        this.failover(fault);
        break;
      case 'reconfigure':
        if (client !== undefined) this.reconfigure(client, fault);
        break;
      case 'data-loss':
        if (node !== undefined) this.forget(node, fault);
        break;
      case 'error-replies':
        if (node !== undefined) this.refuse(node, fault);
        break;
      case 'client-crash':
        this.crashClient(planned, client, fault);
        break;
      case 'pause':
        this.pause(node ?? client, fault);
        break;
      case 'suspend':
        this.suspend(node ?? client, fault);
        break;
      case 'clock-step':
        this.changeClock(node ?? client, fault);
        break;
      case 'clock-drift':
        this.changeClock(node ?? client, fault);
        break;
      case 'partition':
        this.cut(fault);
        break;
      default:
        fault satisfies never;
    }
  }

  private node(name: ProcessName): SimNode | undefined {
    const index = nodeIndex(name);
    // To look at place -1 of a list takes the engine as long as to name a property.
    return index < 0 ? undefined : this.view.nodes[index];
  }

  private process(name: ProcessName): SimNode | ClientProcess | undefined {
    return this.node(name) ?? this.client(name);
  }

  private client(name: ProcessName): ClientProcess | undefined {
    for (const client of this.view.clients) if (client.name === name) return client;
    return undefined;
  }

  private crash(planned: PlannedFault, node: SimNode | undefined, crash: Crash): void {
    if (node === undefined || node.down) return;
    const { context } = this;
    const { restartAfterUs, clean, power } = crash;
    planned.keptUntil = keptUntil(this.view.setup.cluster, context.now, crash);
    node.down = true;
    node.thaw();
    node.downSince = context.now;
    planned.life = ++node.life;
    context.cause = context.note(Kind.crash, node, restartAfterUs ?? -1, 0);
    if (context.trace.keeping && clean === true) context.trace.detail({ clean: 1 });
    if (context.trace.keeping && power === true) context.trace.detail({ power: 1 });
    context.observer.nodeDown(node.index, context.now, power === true);
    if (restartAfterUs === null) return;
    if (crash.restartBy === 'node-clock') {
      planned.restartAt = later(node.clock.read(context.now), restartAfterUs);
      this.waiting.push(planned);
      this.planRestart(planned, node.clock.when(planned.restartAt, context.now), restartAfterUs === 0);
    } else this.planRestart(planned, after(context.now, restartAfterUs), restartAfterUs === 0);
  }

  /** The restart that belongs to a crash; nothing, and `false`, if the process came back another way since. */
  restart(planned: PlannedFault): boolean {
    const { fault } = planned;
    if (fault.kind === 'client-crash') {
      return this.restartClient(planned, planned.client < 0 ? undefined : this.view.clients[planned.client]);
    }
    const node = planned.node < 0 ? undefined : this.view.nodes[planned.node];
    if (node === undefined || !node.down || node.life !== planned.life) return false;
    const { context } = this;
    // The clock was set back since: another event will come.
    if (planned.restartAt !== null && node.clock.read(context.now) < planned.restartAt) return false;
    context.cause = context.note(Kind.restart, node, 0, 0);
    node.restart(planned.keptUntil, context.now);
    context.observer.nodeUp(node.index, context.now);
    return true;
  }

  private failover({ node: name, to = name, lagUs }: Failover): void {
    const [master, node] = [this.node(name), this.node(to)];
    if (master === undefined || node === undefined || (node !== master && node.down)) return;
    const { context } = this;
    const wasDown = node.down;
    const cutAt = master.down ? master.downSince : context.now;
    const lag = lagUs ?? this.view.setup.cluster.replicaLagUs ?? 0;
    node.life++;
    node.thaw();
    context.cause = context.note(Kind.failover, node, cutAt, lagUs ?? 0);
    if (context.trace.keeping && node !== master) context.trace.detail({ of: name });
    if (node !== master) master.hasReplica = false;
    node.takeOver(master, cutAt - lag, context.now);
    if (node !== master) context.observer.tookOver(node.index, context.now);
    if (wasDown) context.observer.nodeUp(node.index, context.now);
  }

  private reconfigure(client: ClientProcess, { nodes }: Reconfigure): void {
    const { context, view } = this;
    client.list = NodeList.named(view.nodes.length, nodes);
    context.cause = context.note(Kind.reconfigure, client, client.list.at(allNodes(client.list.places)), nodes.length);
    if (context.trace.keeping) context.trace.detail({ nodes });
    context.observer.membershipChanged(context.now);
  }

  private forget(node: SimNode, { resource }: DataLoss): void {
    if (node.down) return;
    const { context } = this;
    const key = resource === undefined ? null : context.keyOf(resource);
    context.cause = context.note(Kind['data-loss'], node, key ?? -1, 0);
    if (context.trace.keeping) context.trace.detail(resource === undefined ? {} : { resource });
    node.lose(key, context.now);
  }

  private refuse(node: SimNode, { operations, forUs, error }: ErrorReplies): void {
    const { context } = this;
    const until = after(context.now, forUs);
    context.note(Kind['error-replies'], node, forUs, operations.length);
    if (context.trace.keeping) context.trace.detail({ operations, untilUs: until, error: error ?? '' });
    node.refuse(operations, until);
  }

  private crashClient(planned: PlannedFault, client: ClientProcess | undefined, { restartAfterUs }: ClientCrash): void {
    if (client === undefined || client.down) return;
    const { context } = this;
    context.cause = context.note(Kind['client-crash'], client, restartAfterUs ?? -1, 0);
    client.die();
    planned.life = client.life;
    if (restartAfterUs !== undefined) {
      this.planRestart(planned, after(context.now, restartAfterUs), restartAfterUs === 0);
    }
  }

  private restartClient(planned: PlannedFault, client: ClientProcess | undefined): boolean {
    if (client === undefined || !client.down || client.life !== planned.life) return false;
    this.context.cause = this.context.note(Kind.restart, client, 0, 0);
    client.restart();
    return true;
  }

  private pause(process: Process | undefined, { forUs, first }: Pause): void {
    if (process === undefined || process.down) return;
    const until = after(this.context.now, forUs);
    process.freeze(until, first === 'timers');
    this.context.note(Kind.pause, process, forUs, first === 'timers' ? 1 : 0);
    if (this.context.trace.keeping) this.context.trace.detail({ untilUs: until });
  }

  private suspend(process: SimNode | ClientProcess | undefined, { forUs, stops = 'monotonic' }: Suspend): void {
    if (process === undefined) return;
    const { context } = this;
    const { now } = context;
    const until = after(now, forUs);
    process.standStill(until);
    context.cause = context.note(Kind.suspend, process, forUs, stops === 'all' ? 1 : 0);
    if (context.trace.keeping) context.trace.detail({ untilUs: until, stops });
    process.suspendClocks(now, until, stops);
    this.clockChanged(process);
  }

  private changeClock(process: SimNode | ClientProcess | undefined, fault: ClockStep | ClockRate): void {
    if (process === undefined) return;
    const { context } = this;
    const step = fault.kind === 'clock-step';
    const value = step ? fault.byUs : fault.ratePpm;
    if (step) process.stepClock(context.now, value);
    else process.setClockRate(context.now, value);
    context.cause = context.note(step ? Kind['clock-step'] : Kind['clock-drift'], process, value, 0);
    if (context.trace.keeping) context.trace.detail(step ? { byUs: value } : { ratePpm: value });
    this.clockChanged(process);
  }

  /** The clock that a process reads has changed just now, unless it was another one. */
  private clockChanged(process: SimNode | ClientProcess): void {
    const { now, observer } = this.context;
    if (process.clock.changedAt !== now) return;
    process.clockChanged(now);
    for (const planned of this.waiting) {
      const { fault, restartAt, life } = planned;
      const mine = fault.kind === 'crash' && fault.node === process.name && life === process.life && process.down;
      if (mine && restartAt !== null) this.planRestart(planned, process.clock.when(restartAt, now), false);
    }
    if (process === this.view.clients[process.index]) observer.clientClockChanged(process.index, now);
  }

  private cut(fault: Partition): void {
    const { context } = this;
    const until = after(context.now, fault.forUs);
    this.cutOneWay(fault.from, fault.to, until, fault.holds ?? false);
    if (!fault.oneWay) this.cutOneWay(fault.to, fault.from, until, fault.holds ?? false);
    const somebody = this.process(fault.from[0] ?? '');
    if (somebody === undefined) return;
    context.note(Kind.partition, somebody, fault.forUs, (fault.oneWay ? 1 : 0) + (fault.holds ? 2 : 0));
    if (context.trace.keeping) {
      context.trace.detail({
        from: fault.from,
        to: fault.to,
        untilUs: until,
        oneWay: fault.oneWay ? 1 : 0,
        holds: fault.holds ? 1 : 0,
      });
    }
  }

  private cutOneWay(from: readonly ProcessName[], to: readonly ProcessName[], until: TrueTime, holds: boolean): void {
    for (const source of from) {
      const node = this.node(source);
      const client = node === undefined ? this.client(source) : undefined;
      for (const target of to) {
        const toNode = this.node(target);
        const toClient = toNode === undefined && node !== undefined ? this.client(target) : undefined;
        if (client !== undefined && toNode !== undefined)
          this.links.cut(client.index, toNode.index, 'request', until, holds);
        if (node !== undefined && toClient !== undefined)
          this.links.cut(toClient.index, node.index, 'reply', until, holds);
      }
    }
  }
}
