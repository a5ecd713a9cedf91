import type { Action } from './action.js';
import { type ExploredProperty, type ExploreScope, scopeError } from './bounds.js';
import type { Checkpoint } from './checkpoint.js';
import { copy } from './copy.js';
import { BATCH, NO_PARENT, StateStore } from './store.js';
import { Symmetry } from './symmetry.js';
import { StateModel } from './world.js';

/** Which space is exhausted, and how. */
export interface ExploreOptions {
  readonly bounds: ExploreScope;
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

/** Successors, as they came, of which it is remembered that they were met: nearly half of all are among the latest ones. */
const RECENT = 1 << 19;
/** States from which on remembering them is worth its memory. */
const MANY_STATES = 1 << 14;
/** No state is all ones: a state of nothing but zeros there is. */
const NO_STATE = 0xffff_ffff;

/**
 * Meets every state of a bounded world, or a violation. Throws a `RangeError` that says what is wrong with the bounds.
 *
 * @example
 * ```ts
 * const { verdict, states } = explore({ bounds: { ...SMALL_WORLD, crashes: 1, restartDelay: 3 } });
 * ```
 */
export function explore(options: ExploreOptions): Exploration {
  const wrong = scopeError(options.bounds);
  if (wrong !== null) throw new RangeError(wrong);
  return new Explorer(options).run();
}

/** One exploration. */
export class Explorer {
  readonly world: StateModel;
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
  /** Successors that were met and are not in the store yet, one after the other, and what each was reached from. */
  private readonly batch: Uint32Array;
  private readonly batchParents = new Uint32Array(BATCH);
  private batched = 0;
  /** Kept so that reading ahead is not left out. */
  prefetched = 0;
  /** The latest successors by a hash of theirs, before they were replaced by what stands for them. */
  private recent: Uint32Array | null = null;

  constructor(options: ExploreOptions) {
    this.options = options;
    const { bounds, property = 'mutual-exclusion', reduced = true } = options;
    this.world = new StateModel(bounds, property, reduced);
    this.symmetry = (options.symmetry ?? true) ? new Symmetry(this.world) : null;
    const width = Math.ceil(this.world.size / 2);
    this.store = new StateStore(width);
    this.words = new Uint32Array(width);
    this.wide = new Uint16Array(this.words.buffer);
    this.state = this.wide.subarray(0, this.world.size);
    this.successorWords = new Uint32Array(width);
    this.successor = new Uint16Array(this.successorWords.buffer, 0, this.world.size);
    this.deep = options.order === 'depth';
    this.batch = new Uint32Array(width * BATCH);
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
    this.flush();
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
    if (this.waiting === 0 || this.cursor === this.depthEnds) this.flush();
    if (this.waiting === 0) return -1;
    if (this.cursor === this.depthEnds) {
      this.depth++;
      this.depthEnds = this.store.count;
    }
    return this.cursor++;
  }

  private met(): void {
    this.transitions++;
    const { successor } = this;
    copy(this.world.next, successor);
    if (this.wasMetLately()) return;
    if (this.deep) this.insert();
    else this.putOff();
  }

  /** Whether this very successor is remembered; if not, it is from now on, in the place of another. */
  private wasMetLately(): boolean {
    if (this.recent === null && this.store.count < MANY_STATES) return false;
    const { successorWords: words } = this;
    this.recent ??= new Uint32Array(words.length * RECENT).fill(NO_STATE);
    const { recent } = this;
    let h = 0;
    for (let i = 0; i < words.length; i++) {
      h = Math.imul(h ^ (words[i] ?? 0), 0xcc9e2d51);
      h ^= h >>> 15;
    }
    const at = ((h ^ (h >>> 16)) & (RECENT - 1)) * words.length;
    let same = true;
    for (let i = 0; i < words.length; i++) {
      const word = words[i] ?? 0;
      if (recent[at + i] === word) continue;
      same = false;
      recent[at + i] = word;
    }
    return same;
  }

  /** Leaves a successor for the next {@link flush}. The order in which states are met stays what it is. */
  private putOff(): void {
    this.normalize(this.successor);
    const { successorWords: words, batch } = this;
    const from = this.batched * words.length;
    for (let i = 0; i < words.length; i++) batch[from + i] = words[i] ?? 0;
    this.batchParents[this.batched++] = this.current;
    const left = (this.options.mostStates ?? MOST_STATES) - this.store.count;
    if (this.batched === BATCH || this.batched >= left) this.flush();
  }

  private flush(): void {
    const { store, successorWords: words, batch, batched } = this;
    if (batched === 0) return;
    this.prefetched = store.prefetch(batch, batched);
    for (let number = 0; number < batched; number++) {
      const from = number * words.length;
      const parent = this.batchParents[number] ?? NO_PARENT;
      // The states that follow a violation are left out, but for its brothers. Their transitions have been counted by then.
      if (this.violation >= 0 && parent !== store.parentOf(this.violation)) break;
      for (let i = 0; i < words.length; i++) words[i] = batch[from + i] ?? 0;
      this.take(parent);
    }
    this.batched = 0;
  }

  private insert(): void {
    this.normalize(this.successor);
    this.take(this.current);
  }

  /** Takes the successor in hand into the store, unless it is there. */
  private take(parent: number): void {
    const number = this.store.add(this.successorWords, parent);
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
