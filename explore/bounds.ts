import {
  deviates,
  type Habits,
  hasFencingTokens,
  type Policy,
  type PolicyChange,
  policyPlus,
  policyWith,
  REFERENCE,
} from '../deviations/index.js';

/** True time in a bounded world: one tick is one millisecond, the resolution of expiry in Redis. */
export const TICK_US = 1000;

/**
 * What a bounded world is exhausted for. `mutual-exclusion`: never two clients believe at once that they hold the lock.
 * `quorum-backed`: a quorum of nodes is behind every belief. `acquisition`: nobody claims what is over already. `fencing`:
 * a client that begins to ask for a fencing token after a claim gets a higher counter. `none` meets all states.
 */
export type ExploredProperty = 'mutual-exclusion' | 'quorum-backed' | 'acquisition' | 'fencing' | 'none';

/** A change of the nodes that clients are told of, while it is made. */
export interface NodeSetChange {
  /** By client: the nodes that it is told of. Those with the set of the first client are the old ones. */
  readonly sets: readonly (readonly number[])[];
  /** So many ticks after the change has begun the first of the others may ask, 0 to 60; `null` for at any time. */
  readonly wait: number | null;
  /** Nodes that are turned off for good as it begins. */
  readonly off: readonly number[];
  /** From then on, the old clients ask for no lock and extend none. */
  readonly drained: boolean;
}

/** How large a world to exhaust. Times are in ticks (1 tick = 1 ms); counts are totals over the whole world. */
export interface ExploreScope {
  /** 1 to 7. */
  readonly nodes: number;
  /** 1 to 4; each makes one acquisition. */
  readonly clients: number;
  /** TTL of every lock. */
  readonly ttl: number;
  /** What the policy takes off a validity for clock drift. */
  readonly allowance: number;
  /** How often some clock gains or loses a tick against true time. */
  readonly drift: number;
  /** How often some node crashes and loses its keys. */
  readonly crashes: number;
  /** After how many ticks of its own clock a crashed node answers again; `null` for never. */
  readonly restartDelay: number | null;
  /** How often some node comes back at once with its oldest dump: no keys, and the counter of the start. */
  readonly rollbacks: number;
  /**
   * How often some message is lost. For safety none are needed: a message may stay on its way for ever. They matter
   * where a lost one lets a later one pass on a `fifo` link.
   */
  readonly losses: number;
  /** How often some client is frozen; for how long is free, and its clock runs on. */
  readonly pauses: number;
  /** Attempts of each acquisition after the first; with `forever`, how many earlier ones may still have left traces. */
  readonly retries: number;
  /** Clients try until they hold the lock. What tells of no attempt before the last `retries` ones is forgotten. */
  readonly forever: boolean;
  /** Extensions that each client may ask for. */
  readonly extensions: number;
  /** Whether clients may release their locks; otherwise they hold them until they expire. */
  readonly releases: boolean;
  /** `fifo` delivers in sending order per client, node and direction, as one TCP connection does. */
  readonly link: 'fifo' | 'reordering';
  /** How long a client waits for a node, at least 1; `null` for as long as it takes. */
  readonly timeout: number | null;
  /** The pause between two attempts, at least 1. */
  readonly retryDelay: number;
  /**
   * `granted`: each node grants each lock at once, and time does not pass. What is left to exhaust is how fencing tokens are
   * made, which asks nothing of votes and clocks.
   */
  readonly votes: 'asked' | 'granted';
  /** `null` where all clients are told of all nodes. */
  readonly change: NodeSetChange | null;
  /** What is added to the sound policy: a planted bug. */
  readonly policy: PolicyChange;
}

/** Three nodes, two clients, nothing goes wrong but messages, which take as long as they like. */
export const DEFAULT_SCOPE: ExploreScope = {
  nodes: 3,
  clients: 2,
  ttl: 3,
  allowance: 0,
  drift: 0,
  crashes: 0,
  restartDelay: null,
  rollbacks: 0,
  losses: 0,
  pauses: 0,
  retries: 0,
  forever: false,
  extensions: 0,
  releases: false,
  link: 'fifo',
  timeout: null,
  retryDelay: 1,
  votes: 'asked',
  change: null,
  policy: {},
};

/** The policy that the clients of a bounded world follow. */
export function policyWithin(bounds: ExploreScope): Policy {
  const isGranted = bounds.votes === 'granted';
  const base = policyWith({
    settings: {
      driftPpm: 0,
      driftUs: bounds.allowance * TICK_US,
      nodeTimeoutUs: bounds.timeout === null ? null : bounds.timeout * TICK_US,
      tries: bounds.forever ? null : bounds.retries + 1,
      retryDelayUs: bounds.retryDelay * TICK_US,
      retryJitterUs: 0,
      maxExtensions: bounds.extensions,
      fencing: isGranted,
    },
    // Clocks jump by ticks here, and are read in whole ones.
    deviations: [`stamps-us:${TICK_US}`, `deadline-stamps-us:${TICK_US}`],
    habits: { clock: 'wall' },
  });
  return policyPlus({ deviations: isGranted ? ['sets-any'] : [] }, policyPlus(bounds.policy, base));
}

/** Choices that a bounded world would not act on, so that "safe" would say nothing of them; and why it does not. */
const NOT_EXPLORED = {
  nodesFrom: 'only clients that count all nodes are explored',
  tokenFrom: 'tokens are numbered here, and two clients never draw the same one',
  tokenPerProcess: 'each attempt, or each lock, has a token of its own here',
  beliefEnds: 'only owners that stop believing as they call release are explored',
} as const satisfies { readonly [Habit in Exclude<keyof Habits, 'clock'>]: string };

/** What nothing follows from where votes are granted at once and time does not pass. */
const WITHOUT_EFFECT = [
  'ttl',
  'allowance',
  'drift',
  'timeout',
  'pauses',
  'retries',
  'extensions',
  'releases',
] as const satisfies readonly (keyof ExploreScope)[];

/** What is wrong with these bounds, in one sentence; `null` if nothing is. */
export function scopeError(bounds: ExploreScope): string | null {
  const ranges: readonly (readonly [keyof ExploreScope, number, number])[] = [
    ['nodes', 1, 7],
    ['clients', 1, 4],
    ['ttl', 1, 60],
    ['allowance', 0, 60],
    ['drift', 0, 7],
    ['crashes', 0, 7],
    ['rollbacks', 0, 3],
    ['losses', 0, 7],
    ['pauses', 0, 7],
    ['retries', 0, 7],
    ['extensions', 0, 7],
    ['retryDelay', 1, 60],
  ];
  for (const [name, least, most] of ranges) {
    const value = bounds[name];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
      return `${name} must be a whole number from ${least} to ${most}, not ${String(value)}`;
    }
  }
  const { restartDelay, timeout } = bounds;
  if (timeout !== null && (!Number.isInteger(timeout) || timeout < 1 || timeout > 60)) {
    return `timeout must be a whole number of ticks from 1 to 60, or null, not ${timeout}`;
  }
  if (restartDelay !== null && (!Number.isInteger(restartDelay) || restartDelay < 0 || restartDelay > 60)) {
    return `restartDelay must be a whole number of ticks from 0 to 60, or null, not ${restartDelay}`;
  }
  const wrong = bounds.change === null ? null : changeError(bounds, bounds.change);
  if (wrong !== null) return wrong;
  const policy = policyWithin(bounds);
  for (const [habit, reason] of Object.entries(NOT_EXPLORED) as [keyof Habits, string][]) {
    if (policy.habits[habit] !== REFERENCE.habits[habit]) return `${habit}: ${reason}`;
  }
  if (deviates(policy, 'asks-in-turn')) return 'asks-in-turn: only clients that ask all nodes at once are explored';
  if (bounds.forever && hasFencingTokens(policy)) {
    return 'with retries for ever fencing counters grow without end, and cannot be exhausted';
  }
  if (bounds.votes === 'granted') {
    const idle = WITHOUT_EFFECT.find((it) => bounds[it] !== DEFAULT_SCOPE[it]);
    if (idle !== undefined) return `${idle} has no effect on fencing tokens, whose world has no votes and no time`;
    if (restartDelay !== null && restartDelay > 0) {
      return 'for fencing tokens a crashed node restarts at once or never: their world has no time';
    }
    if (!policy.settings.fencing || deviates(policy, 'fence-from-votes', 'fence-max', 'fence-sum', 'fence-min')) {
      return 'fencing tokens that are made of votes are not explored';
    }
  }
  return bounds.allowance >= bounds.ttl
    ? 'the allowance must be less than the TTL, or nobody ever holds the lock'
    : null;
}

function changeError({ nodes, clients, retries, forever, votes }: ExploreScope, change: NodeSetChange): string | null {
  const { sets, wait, off, drained } = change;
  if (sets.length !== clients) return `sets: there are ${sets.length} for ${clients} clients`;
  const isNode = (it: number): boolean => Number.isInteger(it) && it >= 0 && it < nodes;
  const odd = sets.find((set) => set.length === 0 || !set.every(isNode) || new Set(set).size < set.length);
  if (odd !== undefined) return `sets: ${odd.join('')} has to name some of the nodes 0 to ${nodes - 1}, each once`;
  if (!off.every(isNode)) return `off: only nodes 0 to ${nodes - 1} can be turned off`;
  if (wait !== null && (!Number.isInteger(wait) || wait < 0 || wait > 60))
    return `wait must be a whole number of ticks from 0 to 60, not ${wait}`;
  if (wait === null && (drained || off.length > 0))
    return 'a change that drains, or turns nodes off, has to say how long it waits';
  if (drained && (retries > 0 || forever)) return 'clients that are drained try once only';
  return votes === 'granted' ? 'sets have no effect on fencing tokens, whose world has no votes' : null;
}
