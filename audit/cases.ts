import { casesOf, tasksIn } from '../libraries/search/cases.js';
import { type FaultClass, withstood } from '../libraries/search/fault-classes.js';
import { VIOLATION_KINDS, type ViolationKind } from '../libraries/search/kinds.js';
import type { Understood } from './plan.js';
import { REPLICA_LAG_US } from './replica.js';
import type { PromiseKind } from './result.js';

/** What locks promise: nobody holds one for an update. */
type LockPromise = Exclude<PromiseKind, 'update'>;

/** What a lock is judged by: a lock on one node lives and dies with it; one that is never released is a guard of a period. */
export function promiseOf({ nodes, releases, waits }: Understood): LockPromise {
  if (nodes > 1) return 'redlock';
  if (!releases) return 'guard';
  return waits ? 'replicated' : 'single';
}

/** A key that is left behind ends with its TTL, and nobody has promised more than what the key says. */
const SINGLE: readonly ViolationKind[] = ['belief', 'state', 'lifetime', 'token', 'hang', 'rejection'];

/** What counts against each, the worst first. */
const KINDS: Readonly<Record<LockPromise | 'ownWork', readonly ViolationKind[]>> = {
  single: SINGLE,
  replicated: SINGLE,
  ownWork: ['belief', 'state', 'lifetime', 'token'],
  redlock: VIOLATION_KINDS.filter((kind) => kind !== 'effect' && kind !== 'signal'),
  guard: ['belief', 'lifetime'],
};

/** The kinds of failure that count against a lock. */
export function kindsFor(how: Understood): readonly ViolationKind[] {
  const promise = promiseOf(how);
  if (how.keyVaries) return ['lifetime'];
  // Whose place a key is does not matter where several have one.
  if (how.admits > 1 || how.counts) return ['belief', 'hang', 'rejection'];
  // What it does besides is not known, and takes as long as it takes.
  return KINDS[KINDS[promise] === SINGLE && isOwnWork(how) ? 'ownWork' : promise];
}

/** Whether it does work of its own under the lock, and is handed none. */
export function isOwnWork({ plan }: Understood): boolean {
  return plan.use === 'handler' || plan.use === 'script';
}

/** What a lock on one node has not promised to withstand: the loss of what the node knows. */
const LOSES_DATA: readonly string[] = ['restart-delayed', 'machines', 'even', 'one-dead'];
const EXTENDS: readonly string[] = ['extending', 'silent-extension'];

/** Releases that come when the key is about to expire, or has just expired, over a network that is slow then. */
const LATE: readonly FaultClass[] = [40_000, 300_000].map((spikePpm, i) => ({
  id: `late-release-${i + 1}`,
  title: 'late releases',
  story: 'locks are released as their keys expire, and some messages are late',
  faultModel: { spikePpm },
  link: 'fifo',
  lateRelease: true,
}));

/** What one run goes through. */
export interface Trouble {
  readonly faults: FaultClass;
  readonly commandTimeoutMs: number | undefined;
}

/** What run number `n` of an audit goes through. */
export function troublesFor(how: Understood): (n: number) => Trouble {
  const ttls = ttlsFor(how);
  if (promiseOf(how) === 'redlock') {
    const caseOf = casesOf({ nodes: how.nodes }, true, how.besides);
    return (n) => {
      const { faults, commandTimeoutMs } = caseOf(n);
      return {
        faults: {
          ...faults,
          faultModel: {
            ...faults.faultModel,
            ttlsMs: faults.minority ? (how.fixedTtlMs === null ? [10_000] : ttls) : ttls,
          },
        },
        commandTimeoutMs,
      };
    };
  }
  const classes = withstood(true)
    .filter(({ id, minority }) => !LOSES_DATA.includes(id) && !minority && !(isOwnWork(how) && EXTENDS.includes(id)))
    .map((it) => withoutCrashes(it));
  classes.push(...LATE, ...LATE);
  const replica = how.waits ? { replicaLagUs: REPLICA_LAG_US } : {};
  return (n) => {
    const faults = tasksIn(n, how.besides) ?? (classes[n % classes.length] as FaultClass);
    const alike = Math.floor(n / classes.length) % 2 === 0 ? {} : { longestOffsetMs: 1 };
    return {
      faults: {
        ...faults,
        ...replica,
        faultModel: { ...faults.faultModel, clients: Math.max(3, how.admits + 2), nodes: 1, ttlsMs: ttls, ...alike },
      },
      commandTimeoutMs: undefined,
    };
  };
}

function withoutCrashes(faults: FaultClass): FaultClass {
  const { crashes, stretch, ...rest } = faults.faultModel;
  if (!crashes) return faults;
  return {
    ...faults,
    faultModel: { ...rest, ...(stretch === undefined ? {} : { stretch: { ...stretch, 'restart-delay': 0 } }) },
  };
}

function ttlsFor({ fixedTtlMs, unitMs }: Understood): [number, ...number[]] {
  if (fixedTtlMs !== null) return [fixedTtlMs];
  return unitMs > 1 ? [10_000, 3_000] : [10_000, 2_500, 730];
}
