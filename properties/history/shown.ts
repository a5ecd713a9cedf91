import { printable } from '../../text/printable.js';

/** Names of locks are longer than other names: those of recorders have a UUID in them. */
const LONGEST_NAME = 80;

/** The name of a lock as a finding quotes it. */
export function shownName(lock: string): string {
  return printable(JSON.stringify(lock), LONGEST_NAME);
}

/** A resource as a finding has it. */
export function shownResource(resource: string): string {
  return printable(resource, LONGEST_NAME);
}
