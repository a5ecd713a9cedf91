import type { Program } from './program.js';
import type { ClientKind } from './result.js';

/** A step from the exports of a file to what has the lock's functions. */
export interface Step {
  /** `inside` is a name that the file does not export. */
  readonly kind: 'export' | 'inside' | 'member' | 'call' | 'new';
  readonly name: string;
}

/** How a lock is used: as far as it was understood. */
export interface Plan {
  readonly path: readonly Step[];
  /** Runs work under the lock; is acquired and released; or does its own work, as a request handler or a job. */
  readonly use: 'with' | 'pair' | 'handler' | 'script';
  /** The function that acquires, of what the path leads to; empty for that itself. */
  readonly take: string;
  /** The function that releases; `null` where what was acquired does so itself, or nothing does. */
  readonly give: string | null;
  readonly extend: string | null;
  /** How the same lock is taken by those who only read: beside each other, and not beside its holder. */
  readonly shared?: Plan;
  /** It is told by a text or a flag that it is for those who only read. */
  readonly reads?: boolean;
  /** The name of what it is about, in the place of that of the schedule. */
  readonly named?: string;
  /** Arguments, and properties of these (`order.id`), that have another value than in other calls. */
  readonly differs?: ReadonlySet<string>;
  /** Arguments, and properties of these, that say who asks: each call has another one. */
  readonly owners?: ReadonlySet<string>;
  /** Arguments, and properties of these, that have the value that another one has in other calls. */
  readonly swaps?: ReadonlyMap<string, string>;
  /** What the path leads to is made once in a process, also where it is made for a key. */
  readonly isOne?: boolean;
  /** Of what the path leads to, what has to be called before it can be used, once: `connect`. */
  readonly open?: string | null;
  /** Exported functions that have to be called before all else, once in a process: `init`. */
  readonly begin?: readonly string[];
}

/**
 * What says whether a lock is held, found by what it does: by the name that it has in what was acquired, or in its owner; or what a leader
 * tells, by a function that it is handed or an event: that its term begins, and that it `ends`, where a signal does not say so.
 */
export interface Sign {
  readonly of: 'result' | 'owner' | 'told';
  readonly name: string;
  readonly ends?: string | null;
  /** It is kept for what has it, and nobody can ask for it. */
  readonly isKept?: boolean;
  readonly whenHeld: boolean;
}

/** What an acquisition gives that was refused: this itself, or this in a field of it. */
export interface RefusalSign {
  readonly field: string | null;
  readonly value: unknown;
}

/** What was found out about a lock by using it. */
export interface Understood {
  readonly plan: Plan;
  readonly nodes: number;
  /** It asks one of its nodes alone, and another one where that does not answer. */
  readonly asksOne: boolean;
  /** It is handed its nodes, and nothing says how many. */
  readonly isOpen: boolean;
  readonly client: ClientKind;
  /** How many ms a TTL of 1 means, where the lock is given one. */
  readonly unitMs: number;
  /** The TTL of its key, ms, where it is not given one; `null` where it is. */
  readonly fixedTtlMs: number | null;
  /** An acquisition that gives nothing has succeeded. */
  readonly voidHolds: boolean;
  /** What says whether it is held, where that was found out; see {@link Sign}. */
  readonly sign: Sign | null;
  /** It goes on asking for the lock when its call has returned, and {@link sign} says when it has it. */
  readonly campaigns: boolean;
  /** It does work of its own by calling what it is handed. */
  readonly callsWork: boolean;
  /** What it calls last of what it is handed; `null` for nothing, or where that is not known. */
  readonly lastWork: string | null;
  /** What its functions can do without is left to their defaults. */
  readonly isBare: boolean;
  /** It refuses names like those of a schedule: it asks for another form. */
  readonly isLong: boolean;
  /** Its key is kept alive while it is held. */
  readonly renews: boolean;
  /** Its key is another one at another time. */
  readonly keyVaries: boolean;
  /** What a process may acquire besides a lock that it has: what it promises to keep apart. */
  readonly besides: readonly string[];
  /** It waits until a replica of its node has its key. */
  readonly waits: boolean;
  /** It deletes its key when its work is done. */
  readonly releases: boolean;
  /** What says that an acquisition was refused, where that was found out. */
  readonly refusal: RefusalSign | null;
  /** Its release rejects where the lock has been held for nearly its TTL, though it is there. */
  readonly rejectsLate: boolean;
  /** Its work is handed the function that releases. */
  readonly handsRelease: boolean;
  /** So many may hold it at once: more than 1 of a semaphore. */
  readonly admits: number;
  /** It gives its place to another after this share of its TTL, though its key is there for longer. */
  readonly lastsShare: number;
  /** It counts its holders by plain commands, as ZADD or INCR. */
  readonly counts: boolean;
}

/** Whether its acquisition gives nothing, and its owner is asked whether it has the lock. */
export function saysWhether({ plan, voidHolds, sign }: Pick<Understood, 'plan' | 'voidHolds' | 'sign'>): boolean {
  return plan.use === 'pair' && voidHolds && (sign?.of === 'owner' || sign?.of === 'told');
}

/** As little as is known before a lock was used. */
export const NOTHING_KNOWN: Omit<Understood, 'plan' | 'nodes' | 'client'> = {
  asksOne: false,
  isOpen: false,
  unitMs: 1,
  fixedTtlMs: null,
  voidHolds: false,
  sign: null,
  campaigns: false,
  callsWork: false,
  lastWork: null,
  isBare: false,
  isLong: false,
  renews: false,
  keyVaries: false,
  besides: [],
  waits: false,
  releases: true,
  refusal: null,
  rejectsLate: false,
  handsRelease: false,
  admits: 1,
  lastsShare: 1,
  counts: false,
};

function namesIn(path: readonly Step[]): readonly string[] {
  return path.filter(({ kind }) => kind !== 'call' && kind !== 'new').map(({ name }) => name);
}

/** How each process uses a lock, where these take it as those do who only read. */
export function plansFor({ plan }: Understood, readers: readonly string[]): (process: string) => Plan {
  const { shared, begin = [] } = plan;
  return (process) => (shared !== undefined && readers.includes(process) ? { ...shared, begin } : plan);
}

/** The name of the function that acquires, or of what gives it. */
export function takerIn({ path, take }: Pick<Plan, 'path' | 'take'>): string {
  return take || (namesIn(path).at(-1) ?? '');
}

/** Whether the method that acquires is private, as its file says. */
export function isPrivate({ shapes }: Pick<Program, 'shapes'>, plan: Plan): boolean {
  return shapes.some((it) => it.name === takerIn(plan) && it.isPrivate === true);
}

/** The name of the function or class that a person knows. */
export function nameOfPlan({ path, take, use }: Plan): string {
  if (use === 'script') return 'the script';
  const names = namesIn(path);
  return [...names, take].filter((it) => it !== '' && it !== 'default').join('.') || 'the default export';
}

/** Where the function is that acquires: `lock.ts:12`. */
export function whereOf(program: Program, plan: Plan): string {
  const last = takerIn(plan);
  const named = program.shapes.find(({ name }) => name === last || (name === '' && last === 'default'));
  return named?.where ?? program.name;
}
