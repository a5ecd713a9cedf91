import type { Schedule } from '../../scenarios/index.js';
import { nodeName } from '../../sim/index.js';
import { bodyOf, withBody } from '../schedule-body.js';

const NODE = /^n\d+$/;
const GONE = Symbol('gone');

/** A schedule on one node less: what names the node is left out, and the nodes behind it move up. */
export function withoutNode(schedule: Schedule, node: number): Schedule {
  const rename = (name: string): string | typeof GONE => {
    const index = Number(name.slice(1));
    return index === node ? GONE : nodeName(index < node ? index : index - 1);
  };
  const { faults, fates, cluster, policy } = schedule;
  const clients = schedule.clients.map((client) =>
    client.nodes === undefined ? client : { ...client, nodes: renamed(client.nodes, rename) as readonly string[] },
  );
  const nodes = cluster.nodes - 1;
  const { clocks, distances } = cluster;
  const course = renamed({ faults, fates, clocks, distances }, rename) as typeof schedule & typeof cluster;
  const { votesWanted } = policy.settings ?? {};
  const wanted = typeof votesWanted === 'number' ? { votesWanted: Math.min(votesWanted, nodes) } : {};
  const smaller: Schedule = {
    ...schedule,
    cluster: { ...cluster, nodes, clocks: course.clocks, distances: course.distances },
    policy: 'votesWanted' in wanted ? { ...policy, settings: { ...policy.settings, ...wanted } } : policy,
    clients,
    faults: course.faults,
    fates: course.fates,
  };
  return withBody(smaller, bodyOf(smaller));
}

/** The nodes that a schedule can do without: a cluster has at least one, and so has every list of a client's nodes. */
export function sparableNodes({ cluster: { nodes }, clients, faults }: Schedule): number[] {
  if (nodes < 2) return [];
  const lists = [
    ...clients.map((client) => client.nodes),
    ...faults.map((fault) => (fault.kind === 'reconfigure' ? fault.nodes : undefined)),
  ];
  return Array.from({ length: nodes }, (_, i) => i).filter((i) =>
    lists.every((list) => list === undefined || list.some((name) => name !== nodeName(i))),
  );
}

/** A value with its nodes renamed. Lists lose what names the node that is gone; any other thing that does is gone too. */
function renamed(value: unknown, rename: (name: string) => string | typeof GONE): unknown {
  if (typeof value === 'string') return NODE.test(value) ? rename(value) : value;
  if (Array.isArray(value)) return value.map((it) => renamed(it, rename)).filter((it) => it !== GONE);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([key, it]) => [key, renamed(it, rename)] as const);
  return fields.some(([, it]) => it === GONE) ? GONE : Object.fromEntries(fields);
}
