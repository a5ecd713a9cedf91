import type { Explained } from '../search/index.js';
import { plural } from '../text/format.js';

/**
 * What a counterexample cannot do without, in a few words: `2 clients, 5 nodes, 1 fault; without any one of them:
 * passes`; and `null` if it could do without something, or nothing was asked.
 */
export function neededWords(explained: readonly Explained[]): string | null {
  if (explained.length === 0 || explained.some(({ without }) => without === 'fails')) return null;
  const of = (kind: Explained['kind']): readonly Explained[] => explained.filter((it) => it.kind === kind);
  const counted = (kind: Explained['kind'], one: string, many = `${one}s`): string[] =>
    of(kind).length === 0 ? [] : [plural(of(kind).length, one, many)];
  const parts = [
    ...counted('client', 'client'),
    ...counted('node', 'node'),
    ...counted('fault', 'fault'),
    // A lock for each client goes without saying.
    ...(of('operation').length > of('client').length ? counted('operation', 'operation') : []),
    ...counted('clock', 'clock error'),
    ...counted('message', 'fate'),
  ];
  return parts.length === 0 ? null : `${parts.join(', ')}; without any one of them: passes`;
}
