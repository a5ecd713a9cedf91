import { type Answer, type Command, localTime } from '../../core/index.js';
import {
  type ClusterSetup,
  type Setup,
  type SimLock,
  type TrueTime,
  trueTime,
  type WatchedWorld,
} from '../../sim/index.js';
import { instant, type Report } from './instant.js';

/** What is stored under the keys of one node. */
interface Stored {
  process: WatchedWorld['nodes'][number];
  up: boolean;
  /** By key: the token, 0 for none. */
  readonly tokens: number[];
  /** By key: since when it may be there too long, true time, µs; -1 if nothing is told of it (any more). */
  readonly since: number[];
  /** By token: when the TTLs of all commands with it are over by the node's clock, µs; 0 for none so far. */
  readonly due: number[];
}

/** Makes all places of a list 0. */
function clear(list: number[]): void {
  for (let i = 0; i < list.length; i++) list[i] = 0;
}

/**
 * State: a key is gone once the TTLs of all commands with its token that its node has carried out are over by the clock
 * of that node. A node that is down has no keys, and those that it took over from another are left alone: it was the other
 * that agreed to them.
 */
export class KeyLifetime {
  private readonly nodes: Stored[] = [];
  /** Of earlier runs, to be used again. */
  private readonly spare: Stored[] = [];
  private tickUs = 1000;
  private ticksPerMs = 1;
  private graceTicks = 1;
  private readonly report: Report;
  private readonly ownerOf: (token: number) => SimLock | null;

  constructor({ cluster }: Setup, report: Report, ownerOf: (token: number) => SimLock | null) {
    this.configure(cluster);
    this.report = report;
    this.ownerOf = ownerOf;
  }

  private configure({ resolutionUs, expiry }: ClusterSetup): void {
    this.tickUs = resolutionUs;
    this.ticksPerMs = 1000 / resolutionUs;
    // A key is still there in the last tick of its TTL.
    this.graceTicks = expiry === 'at' ? 0 : 1;
  }

  /** For another run. */
  reset({ cluster }: Setup): void {
    this.configure(cluster);
    for (let stored = this.nodes.pop(); stored !== undefined; stored = this.nodes.pop()) this.spare.push(stored);
  }

  begins({ nodes }: WatchedWorld): void {
    for (const process of nodes) {
      const stored = this.spare.pop();
      if (stored === undefined) this.nodes.push({ process, up: true, tokens: [0], since: [0], due: [0] });
      else {
        stored.process = process;
        stored.up = true;
        clear(stored.tokens);
        clear(stored.since);
        clear(stored.due);
        this.nodes.push(stored);
      }
    }
  }

  /** A node has carried out a command, unless it answered with an error: one that it refused promises nothing. */
  executed(node: number, { operation, token: its, ttlMs }: Command, answer: Answer, now: TrueTime): void {
    if (answer === 'error' || (operation !== 'acquire' && operation !== 'extend')) return;
    const stored = this.nodes[node];
    if (stored === undefined) return;
    const token = its as number;
    const { tickUs } = this;
    const ticks = Math.floor(stored.process.clock.read(now) / tickUs) + ttlMs * this.ticksPerMs + this.graceTicks;
    while (stored.due.length <= token) stored.due.push(0);
    const before = stored.due[token] ?? 0;
    if (ticks * tickUs <= before) return;
    // A token that is new to the node is under none of its keys, but for those of another node, of which nothing is told.
    for (let key = 0; before > 0 && key < stored.tokens.length; key++) {
      if (stored.tokens[key] !== token) continue;
      this.look(stored, node, key, now);
      // From now on the new TTL counts.
      if ((stored.since[key] ?? 0) >= 0) stored.since[key] = now;
    }
    stored.due[token] = ticks * tickUs;
  }

  keySet(node: number, key: number, token: number, now: TrueTime): void {
    const stored = this.nodes[node];
    if (stored === undefined) return;
    while (stored.tokens.length <= key) {
      stored.tokens.push(0);
      stored.since.push(0);
    }
    stored.tokens[key] = token;
    stored.since[key] = now;
  }

  keyGone(node: number, key: number, now: TrueTime): void {
    const stored = this.nodes[node];
    if (stored === undefined) return;
    this.look(stored, node, key, now);
    stored.tokens[key] = 0;
  }

  /** Looks at all keys of a node, whose clock is about to change. */
  check(node: number, now: TrueTime): void {
    const stored = this.nodes[node];
    if (stored === undefined) return;
    for (let key = 0; key < stored.tokens.length; key++) {
      this.look(stored, node, key, now);
      if ((stored.since[key] ?? 0) >= 0) stored.since[key] = now;
    }
  }

  /** A node has taken over from another, with the keys of that one. */
  tookOver(node: number, now: TrueTime): void {
    this.check(node, now);
    this.nodes[node]?.since.fill(-1);
  }

  nodeDown(node: number, now: TrueTime): void {
    this.check(node, now);
    const stored = this.nodes[node];
    if (stored !== undefined) stored.up = false;
  }

  nodeUp(node: number, now: TrueTime): void {
    this.check(node, now);
    const stored = this.nodes[node];
    if (stored !== undefined) stored.up = true;
  }

  finished(now: TrueTime): void {
    for (let node = 0; node < this.nodes.length; node++) this.check(node, now);
  }

  /** Tells of a key that was there before now though its time was over. */
  private look(stored: Stored, node: number, key: number, now: TrueTime): void {
    const token = stored.tokens[key] ?? 0;
    const since = stored.since[key] ?? 0;
    if (token === 0 || since < 0 || !stored.up) return;
    const { clock } = stored.process;
    const due = stored.due[token] ?? 0;
    // Most keys go in time, and to read a clock takes less than to find out when it showed something.
    if (due === 0 || clock.read(now) < due) return;
    const at = clock.when(localTime(due), trueTime(since));
    if (at >= now) return;
    stored.since[key] = -1;
    const owner = this.ownerOf(token);
    const name = owner?.client.name ?? '?';
    const detail = `n${node} has the key of ${name} after the TTLs of all its commands are over by its clock`;
    this.report(instant('bounded-key-lifetime', 'state', owner === null ? [] : [owner], at, detail));
  }
}
