import type { FaultSeen } from '../../scenarios/history-line.js';
import type { ErrorReplies, Fault, FsyncPlan, Pause, ProcessName, Schedule, Suspend } from '../../scenarios/index.js';
import type { Provision } from '../provisioner/index.js';
import type { PolledNode } from './node-poller.js';
import type { Channel } from './proxied-link.js';
import type { ReplayClient } from './replay-client.js';
import type { ReplayClock } from './replay-clock.js';

/** The commands that make an operation possible: without them, a node answers it with an error and does nothing. */
const COMMANDS: Readonly<Partial<Record<ErrorReplies['operations'][number], string>>> = {
  acquire: 'set',
  extend: 'pexpire',
  release: 'del',
};

/** The background fsync of a schedule that does not say. */
const EVERY_SECOND: FsyncPlan = { firstUs: 0, everyUs: 1_000_000, takesUs: 0 };

/** How soon a node that is back is looked at again, ms. */
const RECONNECT_MS = 10;

/** A node with what a run knows of it. */
interface Prop extends PolledNode {
  aheadMs: number;
  rate: number;
  since: number;
}

/** Carries out the faults of a schedule on real nodes, on the ways to them and on clients. */
export class ScriptedFaultInjector {
  /** How long the slowest start of a server took, µs. */
  slowestStartUs = 0;
  /** Faults that are not over. */
  open = 0;
  /** What went wrong with a fault, if anything did. */
  failure: unknown;
  /** What was carried out so far, in order. */
  readonly done: FaultSeen[] = [];
  readonly #schedule: Schedule;
  readonly #clockwork: ReplayClock;
  readonly #actors: readonly ReplayClient[];
  readonly #props: ReadonlyMap<string, Prop>;
  readonly #keepsData: boolean;

  constructor(schedule: Schedule, provided: Provision, actors: readonly ReplayClient[], clockwork: ReplayClock) {
    this.#schedule = schedule;
    this.#clockwork = clockwork;
    this.#actors = actors;
    this.#keepsData = schedule.cluster.persistence !== 'none';
    this.#props = new Map(
      provided.nodes.map((node) => [
        node.name,
        {
          node,
          admin: node.client({ retryStrategy: () => RECONNECT_MS }),
          aheadMs: 0,
          rate: 1,
          since: performance.now(),
        },
      ]),
    );
  }

  get watched(): readonly PolledNode[] {
    return [...this.#props.values()];
  }

  /** Sets clocks that are off from the start. */
  async prepare(): Promise<void> {
    await Promise.all([...this.#props.values()].map(({ admin }) => admin.ping()));
    for (const { process, offsetUs, ratePpm } of this.#schedule.cluster.clocks)
      await this.#setClock(process, offsetUs / 1000, ratePpm);
  }

  begin(): void {
    for (const fault of this.#schedule.faults) {
      this.open++;
      this.#clockwork.at(fault.atUs, () => this.#run(() => this.#strike(fault)));
    }
    const { persistence, fsync = EVERY_SECOND } = this.#schedule.cluster;
    if (persistence !== 'everysec') return;
    for (let atUs = fsync.firstUs; atUs < this.#schedule.untilUs; atUs += Math.max(fsync.everyUs, fsync.takesUs))
      this.#clockwork.at(atUs, () => this.#run(() => this.#sync(atUs, atUs + fsync.takesUs), false));
  }

  #run(task: () => Promise<void>, counts = true): void {
    task()
      .catch((error: unknown) => {
        this.failure ??= error;
      })
      .finally(() => {
        if (counts) this.open--;
      });
  }

  #note(fault: Fault, what: FaultSeen['what']): void {
    this.done.push({ fault, what, atUs: this.#clockwork.nowUs() });
  }

  async #strike(fault: Fault): Promise<void> {
    this.#note(fault, 'struck');
    switch (fault.kind) {
      case 'crash': {
        const { node } = this.#prop(fault.node);
        await (fault.power ? node.cutPower() : node.kill());
        if (fault.restartAfterUs === null) return;
        await this.#until(fault.atUs + fault.restartAfterUs);
        const begun = performance.now();
        await node.restart({ keepData: this.#keepsData });
        this.slowestStartUs = Math.max(this.slowestStartUs, Math.round((performance.now() - begun) * 1000));
        this.#note(fault, 'back');
        return;
      }
      case 'data-loss': {
        const { admin } = this.#prop(fault.node);
        await (fault.resource === undefined ? admin.flushall() : admin.del(fault.resource));
        return;
      }
      case 'error-replies': {
        const { admin } = this.#prop(fault.node);
        const commands = fault.operations.flatMap((operation) => COMMANDS[operation] ?? []);
        await admin.acl('SETUSER', 'default', ...commands.map((command) => `-${command}`));
        await this.#until(fault.atUs + fault.forUs);
        await admin.acl('SETUSER', 'default', ...commands.map((command) => `+${command}`));
        return;
      }
      case 'client-crash':
        this.#actor(fault.client)?.crash();
        return;
      case 'reconfigure':
        this.#actor(fault.client)?.reconfigure(fault.nodes);
        return;
      case 'pause':
        return this.#pause(fault);
      case 'suspend':
        return this.#suspend(fault);
      case 'clock-step': {
        const actor = this.#actor(fault.process);
        if (actor !== undefined) return actor.setBack(-fault.byUs);
        return this.#setClock(fault.process, fault.byUs / 1000, null);
      }
      case 'clock-drift':
        return this.#setClock(fault.process, 0, fault.ratePpm);
      case 'partition': {
        const cut = this.#ways(fault.from, fault.to, fault.oneWay);
        for (const { way, direction } of cut) way.cut(direction);
        await this.#until(fault.atUs + fault.forUs);
        for (const { way, direction } of cut) way.heal(direction);
        return;
      }
      case 'failover':
        throw new RangeError(`nobody can do this to an own process: ${fault.kind}`);
      default:
        fault satisfies never;
    }
  }

  async #pause({ process, atUs, forUs, first }: Pause): Promise<void> {
    const untilUs = atUs + forUs;
    const actor = this.#actor(process);
    if (actor !== undefined) {
      actor.freeze();
      await this.#until(untilUs);
      actor.thaw(first);
      return;
    }
    const { node } = this.#prop(process);
    await node.pause();
    await this.#until(untilUs);
    await node.resume();
  }

  async #suspend({ process, atUs, forUs, stops }: Suspend): Promise<void> {
    this.#actor(process)?.suspend(forUs, stops);
    await this.#pause({ kind: 'pause', process, atUs, forUs });
  }

  async #setClock(process: ProcessName, stepMs: number, ratePpm: number | null): Promise<void> {
    const prop = this.#prop(process);
    const now = performance.now();
    prop.aheadMs += (prop.rate - 1) * (now - prop.since) + stepMs;
    prop.since = now;
    if (ratePpm !== null) prop.rate = 1 + ratePpm / 1_000_000;
    await prop.node.setClock({ aheadMs: prop.aheadMs, rate: prop.rate });
  }

  /** What is on disk after an fsync is what was written by its start, unless the power goes before it is done. */
  async #sync(fromUs: number, toUs: number): Promise<void> {
    const lost = this.#schedule.faults.flatMap((fault) =>
      fault.kind === 'crash' && fault.power === true && fault.atUs >= fromUs && fault.atUs < toUs ? [fault.node] : [],
    );
    const nodes = [...this.#props.values()].map(({ node }) => node).filter(({ name }) => !lost.includes(name));
    await Promise.all(nodes.map((node) => node.sync()));
  }

  #ways(
    from: readonly ProcessName[],
    to: readonly ProcessName[],
    oneWay: boolean,
  ): { readonly way: Channel; readonly direction: 'request' | 'reply' }[] {
    const pairs = this.#actors.flatMap((actor) => actor.ways.map((way) => ({ client: actor.plan.id, way })));
    return pairs.flatMap(({ client, way }) => {
      const there = from.includes(client) && to.includes(way.node);
      const back = from.includes(way.node) && to.includes(client);
      return [
        ...(there || (back && !oneWay) ? [{ way, direction: 'request' as const }] : []),
        ...(back || (there && !oneWay) ? [{ way, direction: 'reply' as const }] : []),
      ];
    });
  }

  #until(atUs: number): Promise<void> {
    return new Promise((resolve) => this.#clockwork.at(atUs, resolve));
  }

  #actor(name: ProcessName): ReplayClient | undefined {
    return this.#actors.find((actor) => actor.plan.id === name);
  }

  #prop(name: ProcessName): Prop {
    const prop = this.#props.get(name);
    if (prop === undefined) throw new RangeError(`${name} is no node of this schedule`);
    return prop;
  }
}
