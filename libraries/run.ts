import type { Violation } from '../properties/index.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import {
  type Adversary,
  type Run,
  runOf,
  ScriptedAdversary,
  type Setup,
  setupOf,
  type TraceEvent,
  World,
} from '../sim/index.js';
import type { RunSoFar } from './debug-log.js';
import type { Frame } from './frames.js';
import { type ClientViolation, failure } from './judges/failure.js';
import { LibraryClient } from './library-client.js';
import { LibraryMonitors } from './library-monitors.js';
import type { ByteLine } from './net/byte-log.js';
import { drainAtOnce, drainByImmediates } from './runtime/drain.js';
import { keepExitCode } from './runtime/exits.js';
import { install } from './runtime/install.js';
import { as, current } from './runtime/owner.js';
import { noteStorages } from './runtime/storages.js';
import { watchdog } from './runtime/watchdog.js';
import type { OpenCall } from './seen.js';
import { type LibraryProcess, type LockFactory, Session, type Uncaught } from './session.js';

/** A run of libraries, with what monitors say about it. */
export interface LibraryRun {
  readonly run: Run;
  readonly world: World;
  readonly monitors: LibraryMonitors;
  readonly violations: readonly ClientViolation[];
  /** What library code threw where nobody could catch it. */
  readonly uncaught: readonly Uncaught[];
  /** What processes saw of their connections, where the trace was kept. */
  readonly bytes: readonly ByteLine[];
  /** Where commands come from, if the trace is kept. */
  readonly frames: readonly Frame[];
}

/** How a schedule is run with libraries. */
export interface LibraryRunOptions {
  /** Keep the trace, not only its hash. Default `false`. */
  readonly trace?: boolean;
  /** Whether locks are to extend themselves, where a client can do that. Default `false`. */
  readonly extendsItself?: boolean;
  /** Is shown the run before library code goes on. Needs the trace. */
  readonly watch?: (run: RunSoFar) => void;
}

/** What libraries are judged by. */
const LIBRARY_PROPERTIES: readonly PropertyId[] = [
  'mutual-exclusion',
  'quorum-backed',
  'no-stale-write',
  'acquisition',
  'continuity',
  'deadlock-free',
  'loss-notified',
];

/** Those of them that are not left to a monitor: about calls, and what a library gives its caller. */
const SEEN_HERE: readonly PropertyId[] = ['acquisition', 'deadlock-free', 'loss-notified'];

/** A call that has not returned at the end of a run, and under which nothing was sent for this long, hangs, µs. */
const PATIENCE_US = 15_000_000;

/** A run is broken off after so many events: clients that try again and again may make as many as they like. */
const MOST_EVENTS = 20_000;

/** Where the second half of them takes no longer than this, µs, the run goes round in circles. */
const CIRCLE_US = 100_000;

/** A client that runs so many immediates in one instant waits for that instant to end. */
const MOST_IMMEDIATES = 20_000;

/** The token of a command that belongs to no lock. */
const NOBODY = 0;

/** One run that is under way. */
class Running {
  readonly world: World;
  readonly monitors: LibraryMonitors;
  private readonly session: Session;
  /** What libraries did to it, as they were made or later, is undone. */
  private readonly restoreExitCode = keepExitCode();
  private readonly stored: readonly (readonly string[])[];
  private readonly watch: ((run: RunSoFar) => void) | undefined;
  /** How many immediates have run in this instant. */
  private immediates = 0;
  private atUs = -1;
  /** When half of the events were handled that a run may have. */
  private halfUs = Number.POSITIVE_INFINITY;

  constructor(subject: LockFactory, setup: Setup, adversary: Adversary, options: LibraryRunOptions) {
    this.monitors = new LibraryMonitors(setup);
    this.watch = options.watch;
    this.stored = subject.stored ?? [];
    let session: Session | null = null;
    this.world = new World(setup, adversary, this.monitors, options.trace ?? false, (seat) => {
      session ??= new Session(subject, seat.context, this.monitors, options.extendsItself ?? false);
      return new LibraryClient(seat, session);
    });
    if (session === null) throw new RangeError('a run needs a client');
    this.session = session;
    this.session.nodes = this.world.nodes;
    this.monitors.nodes = this.world.nodes;
    this.monitors.machines = session;
  }

  /** Gives what to call when the last event was drained. */
  begin(): () => void {
    this.world.begin();
    this.fill();
    if (this.world.setup.cluster.clocks.some(({ ratePpm }) => ratePpm !== 0)) this.monitors.clocksDiffer();
    const { seen, origins } = this.session;
    const restore = [
      this.restoreExitCode,
      noteStorages(),
      catchErrors('unhandledRejection'),
      catchErrors('uncaughtException'),
    ];
    // The connections of `nodes` send at once.
    if (seen.sockets) origins?.start();
    return () => {
      origins?.stop();
      for (const it of restore) it();
    };
  }

  /** Stores on each node what is to be there before the run. */
  private fill(): void {
    const { session, world } = this;
    const { names } = session;
    names.filledBy(() => {
      for (const node of world.nodes)
        for (const argv of this.stored)
          session.serverOf(node).execute(argv, { node, now: world.now, names, by: NOBODY });
    });
  }

  /** Lets the next event happen that library code takes part in, or what is left of the last. */
  turn(): boolean {
    const { session, world } = this;
    watchdog.beat();
    this.watch?.(this);
    if (session.refusal !== null) throw session.refusal;
    const last = session.active;
    if (last?.hasImmediates) {
      // As in Node's event loop: what there is to be read from sockets by now is read first.
      if (session.seen.sockets && world.isNextRead(last)) world.advance();
      else this.runImmediate(last);
      session.active = last;
      return true;
    }
    session.active = null;
    last?.settle();
    while (world.events < MOST_EVENTS && world.advance()) {
      if (world.events >= MOST_EVENTS / 2) this.halfUs = Math.min(this.halfUs, world.now);
      if (session.active !== null) return true;
    }
    if (session.refusal !== null) throw session.refusal;
    current.owner = null;
    return false;
  }

  private runImmediate(process: LibraryProcess): void {
    const { now } = this.world;
    this.immediates = now === this.atUs ? this.immediates + 1 : 0;
    this.atUs = now;
    if (this.immediates > MOST_IMMEDIATES)
      throw process.refuses('calls setImmediate again and again: time goes on only when it waits for a timer');
    process.runImmediates();
  }

  get nowUs(): number {
    return this.world.now;
  }

  get trace(): readonly TraceEvent[] {
    return this.world.context.trace.events;
  }

  /** What is known by now. */
  get violations(): readonly ClientViolation[] {
    const { session, monitors } = this;
    const found = monitors.violations.filter((it) => isJudged(it) && !session.heldPauses.cover(it));
    return [...found, ...session.told].filter((it) => session.counts(it));
  }

  finish(): LibraryRun {
    const { world, monitors, session } = this;
    watchdog.beat(true);
    if (world.events < MOST_EVENTS) world.finish();
    const isWhole = world.events < MOST_EVENTS;
    if (!isWhole) session.seen.brokenOffAfter = MOST_EVENTS;
    const goesInCircles = !isWhole && world.now - this.halfUs <= CIRCLE_US;
    const waiting = session.callsThatWait(PATIENCE_US);
    const clients = waiting.map(({ client }) => client);
    const violations: ClientViolation[] = [
      ...this.violations,
      ...(isWhole ? monitors.found(clients, world.now) : []).filter((it) => session.counts(it)),
      ...waiting.filter((call) => this.isToBlame(call)).map((call) => this.hangOf(call)),
      ...(goesInCircles ? [circles(world)] : []),
    ];
    return {
      run: runOf(world),
      world,
      monitors,
      violations,
      uncaught: session.uncaughtErrors,
      bytes: session.bytes ?? [],
      frames: session.frames,
    };
  }

  /**
   * Whether it is the client's fault that a call does not return. Commands without a time-out wait for ever for a node that
   * is silent, as those do over connections that a client opens itself: a client that leaves that to its connections waits
   * with them. One that bounds its acquisitions has to bound
   * everything else as well. A connection that lives loses nothing: what waits for a node in order is let off.
   */
  private isToBlame({ client, operation }: OpenCall): boolean {
    const { world, monitors, session } = this;
    const { seen, bounds, commandTimeoutMs } = session;
    const { nodes, isMinority } = monitors.waitsFor(client, world.now);
    if (nodes.length === 0 || (commandTimeoutMs !== undefined && !seen.sockets)) return true;
    if (!bounds) seen.waitsWithNodes = operation;
    return bounds && isMinority;
  }

  private hangOf({ client, operation, sinceUs }: OpenCall): ClientViolation {
    const { now } = this.world;
    const { nodes } = this.monitors.waitsFor(client, now);
    const waits = nodes.length === 0 ? '' : `: it waits for ${nodes.join(', ')}`;
    const detail = `${operation} of ${client} has not returned for ${Math.floor((now - sinceUs) / 1_000_000)} s${waits}`;
    return { ...failure('hang', [], now, detail), atUs: sinceUs + PATIENCE_US, resource: 'a', clients: [client] };
  }
}

function isJudged({ property }: Violation): boolean {
  return LIBRARY_PROPERTIES.includes(property) && !SEEN_HERE.includes(property);
}

function circles({ now, clients }: World): ClientViolation {
  const holders = clients.filter(({ locks }) => locks.some((lock) => lock.believing)).map(({ name }) => name);
  const detail = `the run goes round in circles: ${MOST_EVENTS} events by ${Math.floor(now / 1000)} ms`;
  return { ...failure('hang', [], now, detail), resource: 'a', clients: holders };
}

/**
 * Runs libraries under an adversary, drained by documented means: each event ends when all continuations, ticks and
 * immediates that follow from it have run.
 */
export async function runLibraries(
  subject: LockFactory,
  setup: Setup,
  adversary: Adversary,
  options: LibraryRunOptions = {},
): Promise<LibraryRun> {
  install();
  const running = new Running(subject, setup, adversary, options);
  const end = running.begin();
  try {
    await drainByImmediates(() => running.turn());
  } finally {
    end();
  }
  return running.finish();
}

/** The same, at once: see {@link drainAtOnce}. Only from a macrotask. */
export function runLibrariesAtOnce(
  subject: LockFactory,
  setup: Setup,
  adversary: Adversary,
  options: LibraryRunOptions = {},
): LibraryRun {
  install();
  const running = new Running(subject, setup, adversary, options);
  const end = running.begin();
  try {
    drainAtOnce(() => running.turn());
  } finally {
    end();
  }
  return running.finish();
}

/** Runs a written schedule, drained by documented means of Node. */
export function replayLibraries(
  subject: LockFactory,
  schedule: Schedule,
  options: LibraryRunOptions = {},
): Promise<LibraryRun> {
  return runLibraries(subject, setupOf(schedule), new ScriptedAdversary(schedule), options);
}

/** Runs a written schedule at once, drained by means that Node does not document: for shrinking. */
export function replayLibrariesAtOnce(
  subject: LockFactory,
  schedule: Schedule,
  options: LibraryRunOptions = {},
): LibraryRun {
  return runLibrariesAtOnce(subject, setupOf(schedule), new ScriptedAdversary(schedule), options);
}

type Listener = (error: unknown, ...rest: unknown[]) => void;

/**
 * What nobody catches ends a process. In a simulated one it is noted; what others throw goes on to who listened before, and
 * ends this process where nobody did.
 */
function catchErrors(event: 'unhandledRejection' | 'uncaughtException'): () => void {
  const emitter: NodeJS.EventEmitter = process;
  const listeners = emitter.listeners(event) as Listener[];
  const noted: Listener = (error, ...rest) => {
    const { owner } = current;
    if (owner instanceof LibraryClient) owner.session.uncaught(owner, error);
    else if (listeners.length === 0 && event === 'uncaughtException') throw error;
    else for (const listener of listeners) as(null, () => listener.call(process, error, ...rest));
  };
  emitter.removeAllListeners(event);
  emitter.on(event, noted);
  return () => {
    emitter.off(event, noted);
    for (const listener of listeners) emitter.on(event, listener);
  };
}
