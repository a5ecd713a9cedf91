import { extendsItself, MOST_NODES } from '../core/index.js';
import { type Policy, PROFILES, policyWith } from '../deviations/index.js';
import { notAProfile } from '../scenarios/checks.js';
import { parseDuration } from '../scenarios/duration.js';
import { anything, flag, from, oneOf, record, someOf, text, whole, wrong } from '../scenarios/grammar-parts.js';
import { InputError, pointer, ScheduleError, show } from '../scenarios/input-error.js';
import { percent, wholeMs } from '../scenarios/mitigation-values.js';
import { isPlainObject } from '../scenarios/plain-data.js';
import { readAs } from '../scenarios/read-as.js';
import * as z from '../scenarios/zod.js';
import { libraryOf, withItsTimeout, withOwnTokens } from './libraries.js';
import { DEBIAN_UNIT } from './lines.js';
import { SUPERVISORS, type System, type SystemNode } from './system.js';

/** What a text means; an error in it is one of this place. */
function meaning<T>(right: string, parse: (text: string) => T): z.ZodType<T> {
  const error = wrong(right);
  return z.union([z.string(), z.number()], { error }).transform((value, context) => {
    try {
      return parse(String(value));
    } catch (thrown) {
      if (!(thrown instanceof InputError)) throw thrown;
      context.addIssue({ code: 'custom', message: thrown.message });
      return z.NEVER;
    }
  });
}

const duration = (): z.ZodType<number> => meaning('a duration, such as "10s"', parseDuration);
const share = (): z.ZodType<number> => meaning('a percentage, such as "1%"', percent);
const ttl = (): z.ZodType<number> => meaning('a duration of whole milliseconds, such as "10s"', wholeMs);

/** A duration, or `null` for the word that stands for none. */
function durationOr(word: string): z.ZodType<number | null> {
  return meaning(`a duration, such as "10s", or "${word}"`, (it) => (it === word ? null : parseDuration(it)));
}

/** It is part of a path that is printed: a name that could end it is none. */
function unitName(given: string): string {
  const name = given.replace(/\.service$/, '');
  if (/^[\w.@:-]+$/.test(name)) return name;
  throw new InputError(`${show(given)} is not the name of a unit; write it like redis-server`);
}

const count = (low: number, high: number): z.ZodInt =>
  whole({ low, high, right: `a whole number from ${low} to ${high}` });

const node = record('a group of nodes', {
  count: count(1, MOST_NODES).exactOptional(),
  persistence: oneOf('none', 'rdb', 'everysec', 'always').exactOptional(),
  disk: oneOf('kept', 'lost').exactOptional(),
  restart: durationOr('by-hand').exactOptional(),
  powerLoss: flag().exactOptional(),
  evicts: flag().exactOptional(),
  failover: durationOr('none').exactOptional(),
  supervisor: oneOf(...SUPERVISORS).exactOptional(),
  unit: meaning('the name of a unit, such as "redis-server"', unitName).exactOptional(),
});

const GROUPS = 'a group of nodes, such as { "count": 3, "persistence": "everysec" }, or a list of such groups';

const system = record('a system', {
  $schema: text('the address of a schema').exactOptional(),
  name: text('a name').exactOptional(),
  nodes: anything(GROUPS),
  atOnce: count(0, MOST_NODES).exactOptional(),
  clocks: record('clocks', {
    drift: share().exactOptional(),
    steps: durationOr('any').exactOptional(),
    clientSteps: durationOr('any').exactOptional(),
  }).exactOptional(),
  pauses: record('pauses', {
    process: duration().exactOptional(),
    suspend: duration().exactOptional(),
    vm: duration().exactOptional(),
  }).exactOptional(),
  network: record('a network', {
    least: duration().exactOptional(),
    most: duration().exactOptional(),
    write: duration().exactOptional(),
    reordering: flag().exactOptional(),
  }).exactOptional(),
  client: record('a client', {
    library: text('the name of a client profile').exactOptional(),
    ttl: ttl().exactOptional(),
    clients: whole(from(1)).exactOptional(),
    drift: share().exactOptional(),
    driftExtra: duration().exactOptional(),
    votesWanted: z
      .union([z.enum(['quorum', 'all']), count(1, MOST_NODES)], {
        error: wrong('a number of votes, "quorum" or "all"'),
      })
      .exactOptional(),
    nodeTimeout: durationOr('none').exactOptional(),
    guard: durationOr('none').exactOptional(),
    ownTokens: flag().exactOptional(),
    fencing: flag().exactOptional(),
  }).exactOptional(),
  work: record('work', {
    longest: duration().exactOptional(),
    extends: flag().exactOptional(),
    writes: flag().exactOptional(),
  }).exactOptional(),
  resource: record('a resource', { checksToken: flag().exactOptional() }).exactOptional(),
  rates: z.unknown().exactOptional(),
});

type Group = z.core.output<typeof node>;
type Written = z.core.output<typeof system>;

/**
 * A system in the form in which people write it (durations as "10s", shares as "1%"), with defaults for what is left out.
 *
 * @throws {@link InputError} in one sentence, with the place of the first thing that is wrong.
 */
export function parseSystem(value: unknown, source?: string): System {
  try {
    return systemOf(readAs(system, value));
  } catch (error) {
    if (!(error instanceof ScheduleError) || source === undefined) throw error;
    throw new ScheduleError(error.path, error.problem, source);
  }
}

function systemOf(written: Written): System {
  const { name, clocks = {}, network = {}, pauses = {}, resource = {} } = written;
  const nodes = groupsOf(written.nodes).flatMap(nodesOf);
  if (nodes.length > MOST_NODES)
    throw new ScheduleError('/nodes', `${nodes.length} nodes are too many; there are at most ${MOST_NODES}`);
  const nodeStepUs = clocks.steps === undefined ? 0 : clocks.steps;
  const mostUs = network.most ?? 10_000;
  const client = clientOf(written.client ?? {});
  const work = written.work ?? {};
  return {
    name: name ?? `${nodes.length === 1 ? 'one node' : `${nodes.length} nodes`}, ${client.policy.profile}`,
    nodes,
    atOnce: Math.min(written.atOnce ?? nodes.length, nodes.length),
    clocks: {
      driftPpm: clocks.drift ?? 500,
      nodeStepUs,
      clientStepUs: clocks.clientSteps === undefined ? nodeStepUs : clocks.clientSteps,
    },
    pauses: { processUs: pauses.process ?? 0, suspendUs: pauses.suspend ?? 0, vmUs: pauses.vm ?? 0 },
    network: {
      leastUs: network.least ?? 0,
      mostUs,
      writeUs: network.write ?? mostUs,
      reordering: network.reordering ?? libraryOf(client.policy).pooled,
    },
    client,
    work: {
      longestUs: work.longest ?? 500 * client.ttlMs,
      extends: work.extends ?? extendsItself(client.policy.settings),
      writes: work.writes ?? true,
    },
    resource: { checksToken: resource.checksToken ?? false },
    defaulted: defaultedIn(written),
    ...(written.rates === undefined ? {} : { rates: written.rates }),
  };
}

/** What an advice tells its reader if nobody has said it: its default is not the worst. */
const TOLD = [
  'nodes.evicts',
  'nodes.failover',
  'nodes.disk',
  'clocks.drift',
  'clocks.steps',
  'pauses.process',
  'pauses.suspend',
  'pauses.vm',
  'network.most',
  'network.write',
  'network.reordering',
  'client.nodeTimeout',
  'work.longest',
] as const;

function defaultedIn(written: Written): string[] {
  const groups = groupsOf(written.nodes);
  const isSaid = (path: string): boolean => {
    const [part = '', field] = path.split('.');
    if (part === 'nodes') return groups.every((group) => field !== undefined && field in group);
    const value: unknown = Object.entries(written).find(([name]) => name === part)?.[1];
    return field === undefined ? value !== undefined : isPlainObject(value) && field in value;
  };
  return TOLD.filter((path) => !isSaid(path));
}

/** One group may be written without its list: then errors are in the group itself. */
function groupsOf(value: unknown): Group[] {
  if (isPlainObject(value)) return [readAs(node, value, '/nodes')];
  return readAs(someOf(node, GROUPS), value, '/nodes');
}

function nodesOf(group: Group): SystemNode[] {
  const { failover, restart } = group;
  const one: SystemNode = {
    persistence: group.persistence ?? 'none',
    diskKept: group.disk !== 'lost',
    restartUs: restart === undefined ? 0 : restart,
    powerLoss: group.powerLoss ?? true,
    evicts: group.evicts ?? false,
    failoverLagUs: failover === undefined ? null : failover,
    supervisor: group.supervisor ?? 'other',
    unit: group.unit ?? DEBIAN_UNIT,
  };
  return Array.from({ length: group.count ?? 1 }, () => one);
}

function clientOf(client: NonNullable<Written['client']>): System['client'] {
  const { library = 'reference', guard } = client;
  const profile = Object.hasOwn(PROFILES, library) ? PROFILES[library] : undefined;
  if (profile === undefined) throw new ScheduleError(pointer('', 'client', 'library'), notAProfile(library));
  const ttlMs = client.ttl ?? 10_000;
  return {
    policy: chosen(profile, client, ttlMs),
    ttlMs,
    clients: client.clients ?? 2,
    guardUs: guard === undefined ? null : guard,
  };
}

/** The policy of the library with what this system sets. */
function chosen(profile: Policy, client: NonNullable<Written['client']>, ttlMs: number): Policy {
  const { drift, driftExtra, votesWanted, nodeTimeout, fencing } = client;
  const policy = client.ownTokens === true ? withOwnTokens(profile) : profile;
  const set = policyWith(
    {
      settings: {
        ...(drift === undefined ? {} : { driftPpm: drift }),
        ...(driftExtra === undefined ? {} : { driftUs: driftExtra }),
        ...(votesWanted === undefined ? {} : { votesWanted }),
        ...(fencing === undefined ? {} : { fencing }),
      },
    },
    policy,
  );
  if (nodeTimeout === undefined) return withItsTimeout(set, ttlMs);
  return policyWith({ settings: { nodeTimeoutUs: nodeTimeout } }, set);
}
