import { fileURLToPath } from 'node:url';
import { Streams } from '../../sim/index.js';
import { LIBRARIES, loadSubject } from '../libraries/index.js';
import { FAULT_CLASSES } from '../search/fault-classes.js';
import { drawGuestRun } from '../search/search.js';
import type { Subject } from '../session.js';

const subjects = new Map<string, Subject>();

/** The hash of one run of a library, with spikes that reorder. */
export async function hashOf(id: string, seed: string, number: number): Promise<string> {
  const library = LIBRARIES.find((it) => it.id === id);
  const faults = FAULT_CLASSES.find((it) => it.id === 'spikes-reordering');
  if (library === undefined || faults === undefined) throw new Error(`no library ${id}`);
  const subject = subjects.get(id) ?? (await loadSubject(library));
  subjects.set(id, subject);
  return (await drawGuestRun(subject, faults, new Streams(seed), number)).run.hash;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , id = '', seed = '', number = '0'] = process.argv;
  process.stdout.write(`${await hashOf(id, seed, Number(number))}\n`);
}
