import { Option } from 'commander';
import { flag } from './values.js';

/** A flag with a value; an error in the value names the flag. */
export function option<T>(flags: string, description: string, parse: (text: string) => T): Option {
  const made = new Option(flags, description);
  return made.argParser(flag(made.long ?? flags, parse));
}
