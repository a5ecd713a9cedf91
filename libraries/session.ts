import { allNodes, NO_NODES, type NodeSet } from '../core/index.js';
import { nodeName, type SimLock, type SimNode, type World } from '../sim/index.js';
import { printable } from '../text/printable.js';
import { type Edition, sha1 } from '../wire/index.js';
import type { Frame } from './frames.js';
import { LOOP_ANSWERS } from './haste.js';
import { type ClientViolation, failure, handedOverLate, type Limit } from './judges/failure.js';
import { HeldPauses } from './judges/held-pauses.js';
import type { LibraryMonitors } from './library-monitors.js';
import { type LockUnderTest, lockShapeError, type MakeLock } from './lock-under-test.js';
import { memberIndex } from './member-index.js';
import { nodeAt } from './net/addresses.js';
import type { ByteLine, Trouble } from './net/byte-log.js';
import { type NetworkUser, ProcessNetwork } from './net/process-network.js';
import { Origins } from './origins.js';
import { RandomWords } from './random-words.js';
import { toBytes } from './redis/bytes.js';
import type { Wire } from './redis/client.js';
import { Effects } from './redis/effect.js';
import { RunNames } from './redis/names.js';
import { Server } from './redis/server.js';
import type { ProcessContext } from './runtime/owner.js';
import { kindOf, type ViolationKind } from './search/kinds.js';
import type { OpenCall, Seen } from './seen.js';
import type { Tap } from './tap.js';
import { testBedOf } from './test-bed.js';

/** A lock client that can be run; see `lockFactoryOf`. */
export interface LockFactory {
  /** As in a table: `redlock 4.2.0`. */
  readonly name: string;
  readonly make: MakeLock;
  /** What commands of its connections reject after, ms; `undefined` for never, which is the default of ioredis. */
  readonly commandTimeoutMs: number | undefined;
  /** An acquisition returns though a node does not answer: the client bounds how long it waits, whatever its connections do. */
  readonly bounds: boolean;
  /** The text of its scripts by their SHA-1, as far as they are known: nodes have them from the start. */
  readonly scripts: Map<string, string>;
  /** They are as many as will ever be known: what a run sends for the first time is forgotten after it. */
  readonly areScriptsKnown?: boolean;
  /** What its clients have done so far, in all runs. */
  readonly seen: Seen;
  /** Kinds of failure that it never promised to avoid, and that are not told. Default: none. */
  readonly notPromised?: readonly ViolationKind[];
  /** Limits of locks on one node that were met. They count as failures where this is left out. */
  readonly limits?: Set<Limit>;
  /** What a process may acquire besides a lock of `a` that it has or asks for; none where the client promises nothing on that. */
  readonly besides?: readonly string[];
  /** So many may hold one lock at once, as of a semaphore. Default 1. */
  readonly admits?: number;
  /** Of two libraries beside each other: them. Only what the first holds is judged then. */
  readonly members?: readonly [Member, Member];
  /** Commands that each node has carried out before a run. Default: none. */
  readonly stored?: readonly (readonly string[])[];
  /** Listens to its clients' own connections. */
  readonly tap?: Tap | undefined;
  /** The index of the node at a place that clients connect to; -1 for none. Default: nodes by their own addresses. */
  readonly nodeAt?: ((host: string, port: number) => number) | undefined;
  /** Answers `fetch` in the place of servers that are no nodes. Default: a client that calls one is refused. */
  readonly otherServers?: typeof fetch | undefined;
  /** What its nodes run. Default: a Redis that knows `CLIENT SETINFO`. */
  readonly edition?: Edition | undefined;
}

/** One of two libraries beside each other. */
export interface Member {
  readonly factory: LockFactory;
  /** The names of the nodes that it is told of; all of the cluster where left out. */
  readonly nodes?: readonly string[];
  /** What it is told for the name of a lock. */
  readonly nameOf: (resource: string) => string;
}

/** Something that library code threw where nobody could catch it. */
export interface Uncaught {
  readonly client: string;
  readonly atUs: number;
  readonly error: unknown;
}

const LONGEST_MESSAGE = 1_000;

/** Thrown for a client that cannot be simulated. The message says why, and what to do. */
export class UnsupportedClient extends Error {
  override readonly name: string = 'UnsupportedClient';

  constructor(message: string, options?: ErrorOptions) {
    super(printable(message, LONGEST_MESSAGE), options);
  }
}

/** A process that runs library code, as those see it who drive it. */
export interface LibraryProcess extends ProcessContext {
  readonly hasImmediates: boolean;
  runImmediates(): void;
  /** Everything that follows from the event has happened. */
  settle(): void;
}

/** A clock that differs from the process's own by more than this is not the process's own, ms: a year. */
const PLAUSIBLE_MS = 366 * 24 * 3600 * 1000;

/** For all runs of a thread, made when Lua is loaded. */
let effects: Effects | null = null;

/** What the libraries of one run share: who is active, the names of tokens, the servers, what went wrong. */
export class Session {
  /** The nodes of the run; there from its beginning on. */
  nodes: readonly SimNode[] = [];
  /** The process whose library code has run in this event, and is being drained. */
  active: LibraryProcess | null = null;
  readonly names: RunNames;
  readonly randomWords: RandomWords = new RandomWords();
  readonly uncaughtErrors: Uncaught[] = [];
  /** What is wrong with what clients were told: locks that are over already, and signals that nobody needs any more. */
  readonly told: ClientViolation[] = [];
  /** Why the client cannot be simulated, if so. */
  refusal: UnsupportedClient | null = null;
  readonly commandTimeoutMs: number | undefined;
  readonly bounds: boolean;
  private readonly notPromised: readonly ViolationKind[];
  /** Whether locks are to extend themselves, where a client can do that. */
  readonly extendsItself: boolean;
  readonly seen: Seen;
  readonly tap: Tap | null;
  /** Is told what calls come to. */
  readonly judge: LibraryMonitors;
  private readonly subject: LockFactory;
  /** By their SHA-1, those that this run has sent as well. */
  private readonly scripts: Map<string, string>;
  private readonly context: World['context'];
  private readonly servers: Server[] = [];
  /** What went over connections, where a trace is kept. */
  readonly bytes: ByteLine[] | null;
  /** Where commands come from; empty where no trace is kept. */
  readonly frames: Frame[] = [];
  /** `null` where no trace is kept. */
  readonly origins: Origins | null;
  /** What was remembered last: clients send the same again and again. */
  private learnt: string | null = null;
  /** By the index of its process. */
  private readonly networks = new Map<number, ProcessNetwork>();
  /** Nodes whose machines are off. */
  private readonly off = new Set<number>();
  private readonly calls = new Set<OpenCall>();
  /** When each process last sent something, µs. */
  private readonly sentAt = new Map<string, number>();
  private readonly shared = new Set<SimLock>();
  private readonly hasty = new Set<SimLock>();
  /** Processes that have asked for a lock while they had another one, or asked for that. */
  readonly overlapping: Set<string> = new Set();
  /** Those of them of which it is not certain which value is of which of their locks. */
  readonly guessed: Set<string> = new Set();
  /** By key: of which resource it is. */
  private readonly keyNames = new Map<string, string>();
  readonly heldPauses: HeldPauses;

  constructor(subject: LockFactory, context: World['context'], judge: LibraryMonitors, extendsItself: boolean) {
    this.subject = subject;
    this.scripts = subject.areScriptsKnown ? new Map(subject.scripts) : subject.scripts;
    this.seen = subject.seen;
    this.tap = subject.tap ?? null;
    this.judge = judge;
    judge.admit(subject.admits ?? 1);
    this.heldPauses = new HeldPauses((subject.admits ?? 1) > 1);
    this.context = context;
    this.bytes = context.trace.keeping ? [] : null;
    this.origins = context.trace.keeping ? new Origins(() => context.now) : null;
    this.commandTimeoutMs = subject.commandTimeoutMs;
    this.bounds = subject.bounds;
    this.notPromised = subject.notPromised ?? [];
    this.extendsItself = extendsItself;
    this.names = new RunNames(context);
  }

  /** Makes the client of a process. Throws an {@link UnsupportedClient} for what is none. */
  makeClient(
    process: { readonly name: string; wireTo(place: number, node: number): Wire },
    lock: SimLock,
  ): LockUnderTest | Promise<LockUnderTest> {
    this.seen.nodesGiven = Math.max(this.seen.nodesGiven, lock.list.nodes.length);
    const bed = testBedOf(lock, (place, node) => process.wireTo(place, node), this.commandTimeoutMs);
    const { make } = this.memberOf(process)?.factory ?? this.subject;
    const client: unknown = make(bed);
    return client instanceof Promise ? client.then((it) => this.checked(it)) : this.checked(client);
  }

  private memberOf({ name }: Pick<LibraryProcess, 'name'>): Member | undefined {
    return this.subject.members?.[memberIndex(name)];
  }

  /** What the client of a process is told for the name of a lock. */
  resourceFor(process: LibraryProcess, resource: string): string {
    return this.memberOf(process)?.nameOf(resource) ?? resource;
  }

  private checked(client: unknown): LockUnderTest {
    const wrong = lockShapeError(client);
    if (wrong === null) return client as LockUnderTest;
    const error = new UnsupportedClient(`${this.subject.name}: ${wrong}`);
    this.refusal ??= error;
    throw error;
  }

  /** Refuses a held lock that is none of the supported shapes. */
  refuse(wrong: string): UnsupportedClient {
    this.refusal ??= new UnsupportedClient(`${this.subject.name}: ${wrong}`);
    return this.refusal;
  }

  /** Notes the first call that connections of `nodes` do not support. */
  unsupported(sentence: string): Error {
    const error = new Error(sentence);
    this.seen.unsupported ??= error;
    return error;
  }

  /** What answers the commands that reach a node. */
  serverOf(node: SimNode): Server {
    const server = this.servers[node.index] ?? new Server(this.subject.scripts, this.subject.edition);
    this.servers[node.index] = server;
    return server;
  }

  /** The network of a process; all those that there are hear of what becomes of nodes. */
  networkFor(user: NetworkUser): ProcessNetwork {
    this.seen.sockets = true;
    const network = new ProcessNetwork(user, {
      nodes: this.nodes,
      off: this.off,
      serverOf: (node: SimNode) => this.serverOf(node),
      nodeAt: this.subject.nodeAt ?? nodeAt,
      otherServers: this.subject.otherServers ?? null,
    });
    this.networks.set(user.index, network);
    return network;
  }

  logBytes({ name: client }: LibraryProcess, node: number, text: () => string, trouble: Trouble | null): void {
    if (trouble !== null) this.judge.connectionBroke(client, node, this.context.now);
    this.bytes?.push({ atUs: this.context.now, client, node, text: text(), trouble });
  }

  /** The nodes that a process could send something to at once. */
  reachedBy(client: number): NodeSet {
    return this.networks.get(client)?.reached ?? (this.seen.sockets ? NO_NODES : allNodes(this.nodes.length));
  }

  /** The process of a node dies; with `power`, its machine goes off. */
  nodeDied(node: number, power: boolean): void {
    if (power) this.off.add(node);
    for (const network of this.networks.values()) network.nodeDied(node);
  }

  nodeIsBack(node: number): void {
    this.off.delete(node);
    for (const network of this.networks.values()) network.nodeIsBack(node);
  }

  get effects(): Effects {
    effects ??= new Effects();
    return effects;
  }

  textOf(sha: string): string | undefined {
    return this.scripts.get(sha.toLowerCase());
  }

  /** Remembers the scripts in these commands. */
  learn(commands: readonly (readonly string[])[]): void {
    for (const [name = '', first = '', second = '', third = ''] of commands) {
      switch (name.toLowerCase()) {
        case 'function':
          if (/^load$/i.test(first)) this.effects.loadLibrary(third || second);
          break;
        case 'script':
          if (/^load$/i.test(first)) this.learnText(second);
          break;
        case 'eval':
          this.learnText(first);
          break;
      }
    }
  }

  private learnText(text: string): void {
    if (text === this.learnt) return;
    this.learnt = text;
    const sha = sha1(toBytes(text));
    if (!this.scripts.has(sha)) this.scripts.set(sha, text);
  }

  /** Remembers the key of a lock. */
  learnKey(key: string | undefined, { plan, client }: SimLock): void {
    const [resource] = plan.resources;
    if (key !== undefined && resource !== undefined && !this.guessed.has(client.name)) this.keyNames.set(key, resource);
  }

  /** Whether this is the key of a lock, by what was seen of others, or by its name. */
  isKeyOf(key: string, { plan }: SimLock): boolean {
    const known = this.keyNames.get(key);
    const words = key.split(/[^a-z0-9]+/i);
    return plan.resources.some((it) => (known === undefined ? words.includes(it) : known === it));
  }

  /** Whether it counts: of who has two locks at once, not all is known for certain; of two libraries, what the first holds. */
  counts(violation: ClientViolation): boolean {
    const kind = kindOf(violation);
    const isOfOther = this.subject.members !== undefined && memberIndex(violation.clients[0] ?? '') !== 0;
    if (isOfOther || this.notPromised.includes(kind)) return false;
    if (violation.limit !== undefined && this.subject.limits?.add(violation.limit)) return false;
    const isIn = (names: ReadonlySet<string>): boolean => violation.clients.some((it) => names.has(it));
    return kind === 'belief' || kind === 'hang' || !isIn(kind === 'leak' ? this.guessed : this.overlapping);
  }

  uncaught(client: LibraryProcess, error: unknown): void {
    if (error instanceof UnsupportedClient) this.refusal ??= error;
    else this.uncaughtErrors.push({ client: client.name, atUs: this.context.now, error });
  }

  /** A client was given a lock, with this much of it left, µs. */
  given(lock: SimLock, leftUs: number, saysNothing: boolean): void {
    if (leftUs > 0) return;
    this.told.push(handedOverLate(lock, leftUs, this.context.now, saysNothing && this.nodes.length === 1));
  }

  /** A client acquires with a token that another has used, whose lock may still be there. */
  sharesToken(lock: SimLock, owner: SimLock): void {
    const isOver = ['failed', 'released'].includes(owner.state.phase);
    if (owner.gone || isOver || this.shared.has(lock)) return;
    this.shared.add(lock);
    const detail = `${lock.client.name} acquires with the token of ${owner.client.name}, whose lock is not over`;
    this.told.push(failure('token', [owner, lock], this.context.now, detail));
  }

  /** The signal of `using` aborts this long after the call has returned, µs. */
  signalled(lock: SimLock, afterUs: number): void {
    const { name } = lock.client;
    const detail = `${name} is told by the signal that its lock is lost, ${afterUs / 1000} ms after using() has returned`;
    this.told.push(failure('signal', [lock], this.context.now, detail));
  }

  /** A released lock says that it is held again, so long after its release was called, µs. */
  heldAgain(lock: SimLock, afterUs: number): void {
    const detail = `the lock of ${lock.client.name} says that it is held again, ${afterUs / 1000} ms after its release was called`;
    this.told.push(failure('margin', [lock], this.context.now, detail));
  }

  /** A client goes round in a loop while it holds a lock: this node has granted each of its commands for so long, µs. */
  makesHaste(lock: SimLock, place: number, forUs: number): void {
    if (this.hasty.has(lock)) return;
    this.hasty.add(lock);
    const { name } = lock.client;
    const node = nodeName(lock.list.nodes[place] ?? place);
    const detail =
      `${name} holds its lock, and asks ${node} again and again without a pause: ` +
      `${LOOP_ANSWERS} commands in ${forUs / 1000} ms of a TTL of ${lock.plan.ttlMs} ms, each granted`;
    this.told.push(failure('hang', [lock], this.context.now, detail));
  }

  /** Notes that a call has begun; what comes back says that it has returned. */
  opens(client: LibraryProcess, operation: OpenCall['operation']): () => void {
    const call = { client: client.name, operation, sinceUs: this.context.now };
    this.calls.add(call);
    return () => this.calls.delete(call);
  }

  /** The process is dead, and its calls with it. */
  closes(client: LibraryProcess): void {
    for (const call of this.calls) if (call.client === client.name) this.calls.delete(call);
  }

  /** A process sends something. */
  sends(client: LibraryProcess): void {
    this.sentAt.set(client.name, this.context.now);
  }

  /** Calls that have not returned, of processes that have sent nothing for this long, µs. */
  callsThatWait(forUs: number): readonly OpenCall[] {
    const { now } = this.context;
    return [...this.calls].filter(
      ({ client, sinceUs }) => now - Math.max(sinceUs, this.sentAt.get(client) ?? 0) > forUs,
    );
  }

  /** A time that no simulated clock is near comes from a clock that the library had taken before. */
  checkPlausible(client: LibraryProcess, untilMs: number): void {
    const nowMs = client.wallMs();
    // A finished lock is marked by zero, or a time long gone.
    if (untilMs <= 0 || !(Math.abs(untilMs - nowMs) > PLAUSIBLE_MS)) return;
    if (Math.abs(untilMs - Date.UTC(2026, 0)) > 40 * PLAUSIBLE_MS) return;
    throw new UnsupportedClient(
      `${this.subject.name} says that its lock ends ${new Date(untilMs).toISOString()}, but the clock of its process ` +
        `shows ${new Date(nowMs).toISOString()}: it has taken Date, or Date.now, before the dispatchers were there. ` +
        'Import lockstep/testing before the client.',
    );
  }
}
