import { deviates } from '../deviations/index.js';
import { isPlainObject } from '../scenarios/plain-data.js';
import type { Description, System, SystemNode } from './system.js';

/**
 * A description of a system with changes in place: what people have written stays, and gets what differs between the two
 * systems. It is what `parseSystem` reads as the advised one.
 */
export function describeAdvised(description: Description, system: System, advised: System): Description {
  const parts: Description = {
    nodes: nodesWith(description.nodes, system.nodes, advised.nodes),
    clocks: {
      ...(differs(system, advised, ({ clocks }) => clocks.nodeStepUs)
        ? { steps: duration(advised.clocks.nodeStepUs, 'any') }
        : {}),
      ...(differs(system, advised, ({ clocks }) => clocks.clientStepUs)
        ? { clientSteps: duration(advised.clocks.clientStepUs, 'any') }
        : {}),
    },
    client: { ...clientWith(system, advised), ...timeoutWith(description, advised) },
  };
  const result: Record<string, unknown> = { ...description, nodes: parts.nodes };
  for (const name of ['clocks', 'client']) {
    const [before, after] = [result[name], parts[name]];
    if (isPlainObject(after) && Object.keys(after).length > 0)
      result[name] = { ...(isPlainObject(before) ? before : {}), ...after };
  }
  return result;
}

function differs(one: System, other: System, read: (system: System) => unknown): boolean {
  return read(one) !== read(other);
}

function clientWith(system: System, advised: System): Description {
  const { policy, ttlMs, guardUs } = advised.client;
  const settings = (read: (it: typeof policy.settings) => unknown): boolean =>
    differs(system, advised, ({ client }) => read(client.policy.settings));
  const reused = (it: System): boolean => deviates(it.client.policy, 'token-per-call');
  return {
    ...(differs(system, advised, ({ client }) => client.ttlMs) ? { ttl: duration(1000 * ttlMs, '') } : {}),
    ...(settings((it) => it.driftPpm) ? { drift: `${policy.settings.driftPpm / PPM_OF_PERCENT}%` } : {}),
    ...(settings((it) => it.fencing) ? { fencing: policy.settings.fencing } : {}),
    ...(differs(system, advised, reused) ? { ownTokens: true } : {}),
    ...(differs(system, advised, ({ client }) => client.guardUs) ? { guard: duration(guardUs, 'none') } : {}),
  };
}

/** A time-out that was said, as it is for the advised TTL. */
function timeoutWith({ client }: Description, { client: { policy } }: System): Description {
  if (!isPlainObject(client) || client.nodeTimeout === undefined) return {};
  return { nodeTimeout: duration(policy.settings.nodeTimeoutUs, 'none') };
}

const PPM_OF_PERCENT = 10_000;

/** Each group with what is changed of its first node; all nodes of a group are alike. */
function nodesWith(groups: unknown, before: readonly SystemNode[], after: readonly SystemNode[]): unknown {
  let first = 0;
  const changed = (Array.isArray(groups) ? groups : [groups]).map((group: unknown) => {
    if (!isPlainObject(group)) return group;
    const [was, is] = [before[first], after[first]];
    first += typeof group.count === 'number' ? group.count : 1;
    if (was === undefined || is === undefined) return group;
    return {
      ...group,
      ...(is.persistence === was.persistence ? {} : { persistence: is.persistence }),
      ...(is.restartUs === was.restartUs ? {} : { restart: duration(is.restartUs, 'by-hand') }),
      ...(is.evicts === was.evicts ? {} : { evicts: is.evicts }),
      ...(is.failoverLagUs === was.failoverLagUs ? {} : { failover: duration(is.failoverLagUs, 'none') }),
    };
  });
  return Array.isArray(groups) ? changed : changed[0];
}

/** As people write it; `word` stands for no limit. */
function duration(us: number | null, word: string): string {
  if (us === null) return word;
  if (us % 1000 !== 0) return `${us}us`;
  return us % 100_000 === 0 ? `${us / 1_000_000}s` : `${us / 1000}ms`;
}
