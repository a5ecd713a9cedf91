import type { Action } from './action.js';
import { type ExploreBounds, type ExploredProperty, whatIsWrong } from './bounds.js';
import type { Checkpoint } from './checkpoint.js';
import { NO_PARENT, StateStore } from './store.js';
import { Symmetry } from './symmetry.js';
import { BoundedWorld } from './world.js';

/** Which space is exhausted, and how. */
export interface ExploreOptions {
  readonly bounds: ExploreBounds;
  /** Default `mutual-exclusion`. */
  readonly property?: ExploredProperty;
  /** `breadth` finds a shortest counterexample; `depth` finds one sooner, and a longer one. Default `breadth`. */
  readonly order?: 'breadth' | 'depth';
  /** Takes states that differ only in the names of nodes and clients for one. Default `true`. */
  readonly symmetry?: boolean;
  /** Leaves out what the property cannot tell apart. Default `true`. */
  readonly reduced?: boolean;
  /** Stops, not exhausted, after so many states. Default {@link MOST_STATES}. */
  readonly mostStates?: number;
  /** Called every so often; stops, not exhausted, when it says `false`. */
  readonly onProgress?: (progress: ExploreProgress) => boolean;
}

/** How far an exploration is. */
export interface ExploreProgress {
  readonly states: number;
  readonly transitions: number;
  /** States that were met and not looked at yet. */
  readonly waiting: number;
  /** Actions from the start to the state in hand; in `depth`, of the first way that it was reached. */
  readonly depth: number;
  readonly bytes: number;
}

/** What an exploration came to. */
export interface Exploration extends ExploreProgress {
  /** `safe` only of a space that was exhausted. */
  readonly verdict: 'safe' | 'violated' | 'inconclusive';
  readonly exhausted: boolean;
  /** The way to a violation; `null` if none was met. */
  readonly path: readonly Action[] | null;
}

/** States that an exploration meets at most, if nothing else is said. */
export const MOST_STATES = 50_000_000;

/** States whose successors must be known to a checkpoint. */
const RECOGNIZED = 500;

const PROGRESS_EVERY = 1 << 14;

/**
 * Meets every state of a bounded world, or a violation. Throws a `RangeError` that says what is wrong with the bounds.
 *
 * @example
 * ```ts
 * const { verdict, states } = explore({ bounds: { ...SMALL_WORLD, crashes: 1, restartDelay: 3 } });
 * ```
 */
export function explore(options: ExploreOptions): Exploration {
  const wrong = whatIsWrong(options.bounds);
  if (wrong !== null) throw new RangeError(wrong);
  return new Explorer(options).run();
}

/** One exploration. */
export class Explorer {
  readonly world: BoundedWorld;
  store: StateStore;
  transitions = 0;
  private readonly options: ExploreOptions;
  private readonly symmetry: Symmetry | null;
  private readonly state: Uint16Array;
  private readonly words: Uint32Array;
  private readonly wide: Uint16Array;
  private readonly successor: Uint16Array;
  private readonly successorWords: Uint32Array;
  private readonly onSuccessor: () => void;
  private stack: number[] = [];
  private current = NO_PARENT;
  private violation = -1;
  /** Depth-first, states are taken from here. */
  private readonly deep: boolean;
  private cursor = 0;
  private depth = 0;
  /** Breadth-first, the first state of the next depth. */
  private depthEnds = 1;

  constructor(options: ExploreOptions) {
    this.options = options;
    const { bounds, property = 'mutual-exclusion', reduced = true } = options;
    this.world = new BoundedWorld(bounds, property, reduced);
    this.symmetry = (options.symmetry ?? true) ? new Symmetry(this.world) : null;
    const width = Math.ceil(this.world.size / 2);
    this.store = new StateStore(width);
    this.words = new Uint32Array(width);
    this.wide = new Uint16Array(this.words.buffer);
    this.state = this.wide.subarray(0, this.world.size);
    this.successorWords = new Uint32Array(width);
    this.successor = new Uint16Array(this.successorWords.buffer, 0, this.world.size);
    this.deep = options.order === 'depth';
    this.onSuccessor = () => this.met();
    this.successor.set(this.world.initial());
    this.insert();
  }

  /** Explores to the end, or until something stops it. */
  run(): Exploration {
    while (this.work(PROGRESS_EVERY)) {
      if (this.full || this.options.onProgress?.(this.progress()) === false) break;
    }
    return this.result();
  }

  /** Whether it has met as many states as it may. */
  get full(): boolean {
    return this.store.count >= (this.options.mostStates ?? MOST_STATES);
  }

  /** Looks at so many states more. Whether there is more to do. */
  work(looks: number): boolean {
    for (let looked = 0; looked < looks && this.violation < 0 && !this.full; looked++) {
      const number = this.advance();
      if (number < 0) return false;
      this.current = number;
      this.store.read(number, this.words);
      this.world.successors(this.state, this.onSuccessor);
    }
    return this.violation < 0 && this.waiting > 0;
  }

  /** Everything that is known by now, to go on with later. */
  checkpoint(): Checkpoint {
    const { world, store, stack, cursor, depth, depthEnds, transitions } = this;
    return {
      schema: 'lockstep.exploration/2',
      bounds: world.bounds,
      asked: askedOf(this.options),
      commands: world.commands.values,
      replies: world.commands.replyValues,
      counters: world.counters.values,
      locals: world.locks.values,
      nodes: world.nodes.values,
      links: world.links.values,
      ...store.dump(),
      stack: [...stack],
      cursor,
      depth,
      depthEnds,
      transitions,
    };
  }

  /** Goes on where an exploration was stopped. Throws a `RangeError` if it was another one, or of another lock. */
  static resumed(options: ExploreOptions, from: Checkpoint): Explorer {
    const explorer = new Explorer(options);
    const same = JSON.stringify([from.bounds, from.asked]) === JSON.stringify([options.bounds, askedOf(options)]);
    if (!same) throw new RangeError('the checkpoint is of an exploration with other bounds or options');
    explorer.world.restore(from);
    explorer.store = StateStore.restored(explorer.store.width, from.states, from.parents);
    explorer.stack = [...from.stack];
    explorer.cursor = from.cursor;
    explorer.depth = from.depth;
    explorer.depthEnds = from.depthEnds;
    explorer.transitions = from.transitions;
    explorer.recognize();
    return explorer;
  }

  /** Another version of the lock would go another way: what followed the first states must follow them still. */
  private recognize(): void {
    if (this.deep) return;
    for (let number = 0; number < Math.min(this.cursor, RECOGNIZED); number++) {
      this.visit(number, (_action, _state, successor) => {
        if (successor < 0) throw new RangeError('the checkpoint was made by another version of the lock');
      });
    }
  }

  /** A state by its number, until the next one is read. */
  read(number: number): Uint16Array {
    this.store.read(number, this.words);
    return this.state;
  }

  /** All that can follow a state: the action, the state itself, and the number of what follows, which was met. */
  visit(number: number, on: (action: Action, state: Uint16Array, successor: number) => void): void {
    const state = this.read(number);
    this.world.successors(state, (action) => {
      this.successor.set(this.world.next);
      this.normalize(this.successor);
      on(action, state, this.store.find(this.successorWords));
    });
  }

  /** The next state to look at; -1 when there is none. */
  private advance(): number {
    if (this.deep) return this.stack.pop() ?? -1;
    if (this.waiting === 0) return -1;
    if (this.cursor === this.depthEnds) {
      this.depth++;
      this.depthEnds = this.store.count;
    }
    return this.cursor++;
  }

  private met(): void {
    this.transitions++;
    this.successor.set(this.world.next);
    this.insert();
  }

  private insert(): void {
    this.normalize(this.successor);
    const number = this.store.add(this.successorWords, this.current);
    if (number < 0) return;
    if (this.deep) this.stack.push(number);
    if (this.violation < 0 && this.violates(this.successor)) this.violation = number;
  }

  /** Replaces a state by the one that stands for all that cannot be told from it. */
  private normalize(state: Uint16Array): void {
    if (this.options.bounds.forever) this.world.attempts.renumber(state);
    this.symmetry?.canonicalize(state);
  }

  private violates(state: Uint16Array): boolean {
    const { world } = this;
    const property = this.options.property ?? 'mutual-exclusion';
    if (property === 'mutual-exclusion') return world.believers(state) > 1;
    if (property === 'none') return false;
    if (property === 'acquisition') return world.claimedHollow(state);
    if (property === 'fencing') return world.wentBackwards(state);
    for (let client = 0; client < world.bounds.clients; client++) {
      const token = world.tokenBelieved(state, client);
      if (token !== 0 && world.holders(state, token) < world.quorum) return true;
    }
    return false;
  }

  private get waiting(): number {
    return this.deep ? this.stack.length : this.store.count - this.cursor;
  }

  progress(): ExploreProgress {
    const { store, transitions, waiting, depth } = this;
    return { states: store.count, transitions, waiting, depth, bytes: store.bytes };
  }

  /** What is known by now. */
  result(): Exploration {
    const exhausted = this.violation < 0 && this.waiting === 0;
    const path = this.violation < 0 ? null : this.pathTo(this.violation);
    const verdict = path !== null ? 'violated' : exhausted ? 'safe' : 'inconclusive';
    return { ...this.progress(), depth: path?.length ?? this.depth, verdict, exhausted, path };
  }

  /** The actions that lead to a state. They are found again, because only parents were kept. */
  pathTo(number: number): Action[] {
    const numbers: number[] = [];
    for (let at = number; at !== NO_PARENT; at = this.store.parentOf(at)) numbers.unshift(at);
    const path: Action[] = [];
    // The states in the store may be renamed ones: what is replayed is a world in which nobody changes name.
    const state = Uint16Array.from(this.world.initial());
    for (const target of numbers.slice(1)) {
      let found: Action | null = null;
      const chosen = new Uint16Array(this.world.size);
      this.world.successors(state, (action) => {
        if (found !== null) return;
        this.successor.set(this.world.next);
        this.normalize(this.successor);
        if (this.store.find(this.successorWords) !== target) return;
        found = action;
        chosen.set(this.world.next);
        if (this.options.bounds.forever) this.world.attempts.renumber(chosen);
      });
      if (found === null) throw new Error('a state cannot be reached from its parent');
      path.push(found);
      state.set(chosen);
    }
    return path;
  }
}

function askedOf({
  property = 'mutual-exclusion',
  order = 'breadth',
  symmetry = true,
  reduced = true,
}: ExploreOptions): string {
  return `${property} ${order} ${symmetry} ${reduced}`;
}
