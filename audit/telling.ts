import { plural } from '../text/format.js';
import { givesClient, hasSettings, sharesClient } from './neighbours.js';
import { isFile, replacedIn } from './packages.js';
import { nameOfPlan, type Understood, whereOf } from './plan.js';
import { hasOwnConnections, type Program } from './program.js';
import type { AuditResult, PromiseKind } from './result.js';
import { guessedSettings } from './service-settings.js';
import type { FoundLock } from './understand.js';
import { seconds } from './words.js';

const CLIENTS = {
  ioredis: 'ioredis',
  iovalkey: 'iovalkey',
  'node-redis': 'node-redis',
  upstash: 'Upstash REST',
} as const;

/** What was understood of how a lock is used, one sentence each. */
export function understoodIn(program: Program, { how, seen }: FoundLock): string[] {
  const { plan, nodes, client, fixedTtlMs, unitMs, renews, releases } = how;
  const name = nameOfPlan(plan);
  const where = whereOf(program, plan);
  const uses = {
    with: 'runs work under the lock',
    pair: how.campaigns
      ? `asks for the lock; ${signOf(how)} who has it, and ${plan.give ?? 'what it gives'} releases`
      : plan.give === null
        ? 'acquires, and what it gives releases'
        : `acquires, and ${plan.give} releases`,
    handler: 'does its own work under the lock',
    script: 'does its work under the lock as it is loaded',
  }[plan.use];
  const key = seen.alone.trial?.key ?? '';
  const ttl =
    fixedTtlMs === null
      ? `its TTL is what it is given, in ${unitMs === 1 ? 'ms' : 's'}`
      : `its TTL is ${seconds(fixedTtlMs)}`;
  const replaced = replacedIn(program.sources.flatMap(({ imports }) => imports));
  const noTtl = seen.alone.trial?.ttlMs === null;
  return [
    `${plan.use === 'script' ? program.name : name} (${where}) ${uses}`,
    `${nodes === 1 ? 'one node' : `${nodes} nodes`}, by ${hasOwnConnections(program) ? 'connections of its own' : CLIENTS[client]}; its key is ${JSON.stringify(key)}, and ${noTtl ? 'it has no TTL' : ttl}`,
    ...(plan.shared === undefined ? [] : [`${nameOfPlan(plan.shared)} is for those who only read: one process does`]),
    ...(how.admits > 1 ? [`${how.admits} may hold it at once`] : []),
    ...(renews ? ['it extends its lock by itself while it is held'] : []),
    ...(releases ? [] : ['it never deletes its key: what it guards is done once in a TTL']),
    ...[...program.missing].map(
      (it) =>
        `${it}: ${isFile(it) ? 'not there' : `not installed (npm install ${it})`}, and so not loaded; ${stands(it, program)}`,
    ),
    ...(guessedSettings.size > 0 ? [`${[...guessedSettings].sort().join(', ')}: not known, and so guessed`] : []),
    ...(replaced.length > 0 ? [`${replaced.join(', ')}: not loaded; what is called of them succeeds`] : []),
  ];
}

/** What says who leads. */
function signOf({ sign }: Understood): string {
  if (sign?.of !== 'told') return `${sign?.name} says`;
  return `${sign.name} and ${sign.ends ?? 'its signal'} say`;
}

/** What stands for an import. */
function stands(request: string, { texts }: Program): string {
  if (givesClient(request)) return 'a client of Redis stands for it';
  if (texts.some((it) => sharesClient(request, it)))
    return 'a client of Redis stands for its client, and what else is called of it succeeds';
  return hasSettings(request) ? 'its settings are guessed by their names' : 'what is called of it succeeds';
}

/** What was judged, and what was not. */
export const PROMISES: Readonly<Record<PromiseKind, { readonly judged: string; readonly notMade: string }>> = {
  single: {
    judged:
      'that of a lock on a single node: one holder at a time for as long as a TTL lasts, and a key that ends by itself',
    notMade:
      'it is lost with its node: a crash without the key on disk, or a failover to a replica, can give it to two; work that outlasts the TTL needs a fencing token',
  },
  replicated: {
    judged:
      'that of a lock on a node with a replica: one holder at a time for as long as a TTL lasts, also where that replica takes over while the lock is held, and a key that ends by itself',
    notMade:
      'what was extended or released just before a failover, a replica that takes over later and has not caught up, and both masters of a split network; work that outlasts the TTL needs a fencing token',
  },
  redlock: {
    judged:
      'that of Redlock: one holder at a time on a majority of nodes, whatever a minority does, and nodes that return after a TTL',
    notMade:
      'nodes that are back without their keys before a TTL has passed, and clocks that jump; work that outlasts the TTL needs a fencing token',
  },
  guard: {
    judged: 'that of a guard: once in the TTL of its key',
    notMade: 'exclusion for longer than the TTL, and a second try where the work has failed; it is lost with its node',
  },
  update: {
    judged: 'that of an optimistic update: of two changes that are made at once, none is lost',
    notMade: 'exclusion: nobody holds a lock, and what is done besides the update may be done twice',
  },
};

/** The promise of one lock: of a semaphore, that so many hold it. */
export function promiseSaid({ promise, admits }: { readonly promise: PromiseKind; readonly admits: number }): {
  readonly judged: string;
  readonly notMade: string;
} {
  const { judged, notMade } = PROMISES[promise];
  return { judged: admits === 1 ? judged : judged.replace('one holder', `at most ${admits} holders`), notMade };
}

/** How many acquisitions were made; updates, where nobody holds a lock. */
export function acquiredSaid({ promise, acquired }: Pick<AuditResult, 'promise' | 'acquired'>): string {
  return plural(acquired, promise === 'update' ? 'update' : 'acquisition');
}
