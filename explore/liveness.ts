import { type Action, ActionKind, partsOf } from './action.js';
import type { ExploreScope } from './bounds.js';
import { type Exploration, type ExploreOptions, type ExploreProgress, Explorer } from './explore.js';
import { PAUSE } from './locks.js';

/** Which space is searched for traps. */
interface LivenessOptions {
  readonly bounds: ExploreScope;
  readonly mostStates?: number;
  readonly onProgress?: (progress: ExploreProgress) => boolean;
}

/** What a search for traps came to. */
export interface LivenessResult extends Exploration {
  /** States in which somebody wants the lock and nobody can ever get it, whatever happens but faults. */
  readonly trapped: number;
}

/**
 * Deadlock freedom of a bounded world: from every state in which a client wants the lock, something that can happen without
 * a further fault leads to a claim. Meets all states, unreduced and with every node and client under its own name (who is
 * waiting must not be mixed up with who gets it), and then goes backwards from the claims.
 */
export function exploreLiveness({ bounds, ...options }: LivenessOptions): LivenessResult {
  const explorer = new Explorer({ ...options, ...everything(bounds) });
  explorer.run();
  return livenessOf(explorer);
}

/** How to meet everything that {@link livenessOf} needs. */
export function everything(bounds: ExploreScope): ExploreOptions {
  return { bounds, symmetry: false, reduced: false, property: 'none' };
}

/** Who is trapped in a space that was met whole. Of one that was not, nothing is said. */
export function livenessOf(explorer: Explorer): LivenessResult {
  const met = explorer.result();
  if (!met.exhausted) return { ...met, trapped: 0 };
  const alive = statesWithHope(explorer);
  let first = -1;
  let trapped = 0;
  for (let number = 0; number < explorer.store.count; number++) {
    if (alive[number] === 1 || !wants(explorer, number)) continue;
    if (first < 0) first = number;
    trapped++;
  }
  if (first < 0) return { ...met, trapped };
  const path = explorer.pathTo(first);
  return { ...met, trapped, verdict: 'violated', path, depth: path.length };
}

/** By state: 1 where a claim can follow without a further fault. */
function statesWithHope(explorer: Explorer): Uint8Array {
  const { store } = explorer;
  const alive = new Uint8Array(store.count);
  // States are numbered by their distance from the start, so that backwards most are decided in the first pass.
  for (let changed = true; changed; ) {
    changed = false;
    for (let number = store.count - 1; number >= 0; number--) {
      if (alive[number] === 1 || !leadsOn(explorer, number, alive)) continue;
      alive[number] = 1;
      changed = true;
    }
  }
  return alive;
}

function leadsOn(explorer: Explorer, number: number, alive: Uint8Array): boolean {
  let leads = false;
  explorer.visit(number, (action, state, successor) => {
    if (leads || isFault(action)) return;
    leads = alive[successor] === 1 || claims(explorer, state);
  });
  return leads;
}

function isFault(action: Action): boolean {
  const { kind, detail } = partsOf(action);
  switch (kind) {
    case ActionKind.loseRequest:
    case ActionKind.loseReply:
    case ActionKind.crash:
    case ActionKind.drift:
      return true;
    case ActionKind.call:
      return detail === PAUSE;
    default:
      return false;
  }
}

/** Whether a client holds the lock in `after` that did not in `before`. */
function claims({ world }: Explorer, before: Uint16Array): boolean {
  for (let client = 0; client < world.bounds.clients; client++) {
    const was = world.locks.at(before[client] ?? 0).lock.phase;
    if (was !== 'held' && world.locks.at(world.next[client] ?? 0).lock.phase === 'held') return true;
  }
  return false;
}

function wants(explorer: Explorer, number: number): boolean {
  const { world } = explorer;
  const state = explorer.read(number);
  for (let client = 0; client < world.bounds.clients; client++) {
    const { phase } = world.locks.at(state[client] ?? 0).lock;
    if (phase === 'acquiring' || phase === 'cleaning' || phase === 'waiting') return true;
  }
  return false;
}
