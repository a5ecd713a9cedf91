import type { PropertyId, Schedule } from '../scenarios/index.js';

/**
 * What a small schedule is like, whatever its times, nodes and names are: failures of the same shape are most likely the
 * same. One line, made to be read too.
 */
export function signatureOf(property: PropertyId, schedule: Schedule): string {
  const { cluster, clients, faults, fates } = schedule;
  const locks = clients.map((it) => it.locks.length).filter((count) => count > 0);
  const extensions = clients.flatMap((it) => it.locks.flatMap((lock) => lock.extensions)).length;
  const clocks = cluster.clocks.filter((it) => it.ratePpm !== 0).map((it) => `${sideOf(it.process)} clock rate`);
  const fateWords = fates.map((fate) => {
    const fault = 'lost' in fate && fate.lost ? 'lost' : fate.duplicateDelayUs !== undefined ? 'copied' : 'held up';
    return `${fate.operation} ${fate.direction} ${fault}`;
  });
  const faultWords = faults.map((fault) =>
    'process' in fault ? `${sideOf(fault.process)} ${fault.kind}` : fault.kind,
  );
  const parts = [
    `${locks.sort().join('+')} locks`,
    ...counted(extensions > 0 ? Array.from({ length: extensions }, () => 'extension') : []),
    ...counted(clocks),
    ...counted(faultWords),
    // How many votes a fate takes differs with the luck of the draw; that it is there does not.
    ...[...new Set(fateWords)].sort(),
  ];
  return `${property}: ${parts.join(', ')}`;
}

function sideOf(process: string): string {
  return process.startsWith('n') ? 'node' : 'client';
}

function counted(words: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const word of [...words].sort()) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => (count === 1 ? word : `${count} ${word}`));
}
