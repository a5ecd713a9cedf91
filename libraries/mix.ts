import type { Schedule } from '../scenarios/index.js';
import { nodeName } from '../sim/index.js';
import type { Library } from './adapters/index.js';
import { memberIndex } from './member-index.js';
import { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';
import { noCalls } from './seen.js';
import type { LockFactory, Member } from './session.js';

/** A library that is loaded; `library` is what the matrix knows of it. */
export type Loaded = LockFactory & { readonly library: Library | null };

/** What is not asked of two libraries beside each other: all but whether two clients believe at once to hold the lock. */
const NOT_ASKED: readonly ViolationKind[] = VIOLATION_KINDS.filter((kind) => kind !== 'belief');

/** How two libraries are put beside each other. */
export interface Migration {
  readonly nodes: number;
  /**
   * Whether they are given names of which they make the same key, if there are such: who uses names as they are is told the
   * key of the other. Otherwise both are told the same name.
   */
  readonly sameKey: boolean;
}

/**
 * Two libraries beside each other, as in a migration: clients with odd numbers run the old one. One that is made for one
 * node is told of the first.
 */
export function mixOf(old: Loaded, joining: Loaded, sameKey: boolean): LockFactory {
  return {
    ...old,
    name: `${old.name} beside ${joining.name}`,
    bounds: old.bounds && joining.bounds,
    scripts: new Map([...old.scripts, ...joining.scripts]),
    seen: { ...noCalls(), sockets: old.seen.sockets || joining.seen.sockets },
    notPromised: NOT_ASKED,
    members: [memberOf(old, sameKey ? joining : null), memberOf(joining, sameKey ? old : null)],
  };
}

function memberOf(factory: Loaded, other: Loaded | null): Member {
  const { library } = factory;
  const nameOf = (it: string): string => (library?.keyOf === undefined && other?.library?.keyOf?.(it)) || it;
  return { factory, nameOf, ...(library?.nodes === 1 ? { nodes: [nodeName(0)] } : {}) };
}

/** Whether some name makes two libraries use one key that do not by the same name. */
export function canShareKey(one: Pick<Library, 'id' | 'keyOf'>, other: Pick<Library, 'id' | 'keyOf'>): boolean {
  return one.id !== other.id && (one.keyOf === undefined) !== (other.keyOf === undefined);
}

/** The same schedule, with each client told of the nodes of its library. */
export function arranged(schedule: Schedule, { members }: LockFactory): Schedule {
  return told(schedule, (client) => members?.[memberIndex(client)]);
}

/** Each of two libraries by itself, with the schedule on its nodes; nothing for one that is by itself. */
export function aloneOf({ members }: LockFactory, schedule: Schedule): [LockFactory, Schedule][] {
  return (members ?? []).map((it) => [it.factory, told(schedule, () => it)]);
}

function told(schedule: Schedule, memberOf: (client: string) => Member | undefined): Schedule {
  const clients = schedule.clients.map(({ nodes: _, ...client }) => {
    const { nodes } = memberOf(client.id) ?? {};
    return nodes === undefined ? client : { ...client, nodes };
  });
  return { ...schedule, clients };
}
