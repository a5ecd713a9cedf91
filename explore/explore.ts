import { quorumOf } from '../deviations/index.js';
import type { Action } from './action.js';
import { type ExploredProperty, type ExploreScope, scopeError } from './bounds.js';
import { type Checkpoint, restoreParts } from './checkpoint.js';
import { copy } from './copy.js';
import { Packing } from './packing.js';
import { Recent } from './recent.js';
import { BATCH, hashOf, NO_PARENT, StateStore } from './store.js';
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

/** States from which on it is worth the memory to remember the latest successors. */
const MANY_STATES = 1 << 14;

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
  /** Whether other states may stand for those that are met. */
  private readonly renames: boolean;
  private packing: Packing;
  private readonly state: Uint16Array;
  private readonly successor: Uint16Array;
  /** What goes into the store. */
  private readonly taken: Uint16Array;
  /** A successor, packed; there is room for the widest way. */
  private readonly words: Uint32Array;
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
  private readonly batchHashes = new Uint32Array(BATCH);
  private readonly batchParents = new Uint32Array(BATCH);
  private batched = 0;
  /** Kept so that reading ahead is not left out. */
  prefetched = 0;
  /** The latest successors as they came, where to find what stands for them takes long. */
  private recent: Recent | null = null;

  constructor(options: ExploreOptions) {
    this.options = options;
    const { bounds, property = 'mutual-exclusion', reduced = true } = options;
    this.world = new StateModel(bounds, property, reduced);
    this.symmetry = (options.symmetry ?? true) ? new Symmetry(this.world) : null;
    this.renames = this.symmetry !== null || bounds.forever;
    const { size, kinds } = this.world;
    const first = this.world.initial();
    this.packing = Packing.for(kinds, first);
    this.store = new StateStore(this.packing.width);
    this.state = new Uint16Array(size);
    this.successor = new Uint16Array(size);
    this.taken = new Uint16Array(size);
    this.words = new Uint32Array(size);
    this.batch = new Uint32Array(size * BATCH);
    this.deep = options.order === 'depth';
    this.onSuccessor = () => this.met();
    this.normalize(first);
    this.insert(first);
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
      this.world.successors(this.read(number), this.onSuccessor);
    }
    this.flush();
    return this.violation < 0 && this.waiting > 0;
  }

  /** Everything that is known by now, to go on with later. */
  checkpoint(): Checkpoint {
    const { world, store, stack, cursor, depth, depthEnds, transitions } = this;
    return {
      schema: 'lockstep.exploration/3',
      bounds: world.bounds,
      asked: askedOf(this.options),
      commands: world.commands.values,
      replies: world.commands.replyValues,
      counters: world.counters.values,
      locals: world.locks.values,
      nodes: world.nodes.values,
      links: world.links.values,
      bits: this.packing.bits,
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
    restoreParts(explorer.world, from);
    explorer.packing = new Packing(explorer.world.kinds, from.bits);
    explorer.store = StateStore.restored(explorer.packing.width, from.states, from.parents);
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
    this.store.read(number, this.packing, this.state);
    return this.state;
  }

  /** All that can follow a state: the action, the state itself, and the number of what follows, which was met. */
  visit(number: number, on: (action: Action, state: Uint16Array, successor: number) => void): void {
    const state = this.read(number);
    this.world.successors(state, (action) => {
      this.successor.set(this.world.next);
      this.normalize(this.successor);
      on(action, state, this.find());
    });
  }

  /** The number of the successor in hand, -1 if it was never met. */
  private find(): number {
    return this.packing.pack(this.successor, this.words, 0) ? this.store.find(this.words) : -1;
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
    const { next } = this.world;
    let met = next;
    if (this.renames) {
      if (this.wasMetLately(next)) return;
      met = this.successor;
      copy(next, met);
      this.normalize(met);
    }
    if (this.deep) this.insert(met);
    else this.putOff(met);
  }

  private wasMetLately(state: Uint16Array): boolean {
    if (this.recent === null && this.store.count < MANY_STATES) return false;
    this.pack(state, this.words, 0);
    this.recent ??= new Recent(this.packing.width);
    return this.recent.has(this.words);
  }

  /** Packs a state, after so many others. Where one of its numbers is too great, all are packed in a wider way from now on. */
  private pack(state: Uint16Array, words: Uint32Array, place: number): void {
    if (this.packing.pack(state, words, place * this.packing.width)) return;
    this.flush();
    this.packing = this.store.repack(this.packing, state);
    this.recent = null;
    this.packing.pack(state, words, 0);
  }

  /** Leaves a state for the next {@link flush}. The order in which states are met stays what it is. */
  private putOff(state: Uint16Array): void {
    const { batch } = this;
    this.pack(state, batch, this.batched);
    const { width } = this.packing;
    this.batchHashes[this.batched] = hashOf(batch, this.batched * width, width);
    this.batchParents[this.batched++] = this.current;
    const left = (this.options.mostStates ?? MOST_STATES) - this.store.count;
    if (this.batched === BATCH || this.batched >= left) this.flush();
  }

  private flush(): void {
    const { store, batch, batchHashes, batched } = this;
    if (batched === 0) return;
    const { width } = this.packing;
    this.prefetched = store.prefetch(batchHashes, batched);
    for (let number = 0; number < batched; number++) {
      const parent = this.batchParents[number] ?? NO_PARENT;
      // The states that follow a violation are left out, but for its brothers. Their transitions have been counted by then.
      if (this.violation >= 0 && parent !== store.parentOf(this.violation)) break;
      this.take(batch, number * width, batchHashes[number] ?? 0, parent);
    }
    this.batched = 0;
  }

  private insert(state: Uint16Array): void {
    this.pack(state, this.words, 0);
    this.take(this.words, 0, hashOf(this.words, 0, this.packing.width), this.current);
  }

  /** Takes the state that begins at `from` into the store, unless it is there. */
  private take(words: Uint32Array, from: number, h: number, parent: number): void {
    const number = this.store.add(words, from, h, parent);
    if (number < 0) return;
    if (this.deep) this.stack.push(number);
    if (this.violation >= 0) return;
    this.packing.unpack(words, from, this.taken);
    if (this.violates(this.taken)) this.violation = number;
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
    if (property === 'acquisition') return world.claimedTooLate(state);
    if (property === 'fencing') return world.wentBackwards(state);
    for (let client = 0; client < world.bounds.clients; client++) {
      const token = world.tokenBelieved(state, client);
      if (token !== 0 && world.holders(state, token) < quorumOf(world.policy, world.sets.sizeOf(client))) return true;
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
        if (this.find() !== target) return;
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
