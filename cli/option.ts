import { type Command, Option } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import { flag } from './values.js';

/** A flag with a value; an error in the value names the flag. */
export function option<T>(flags: string, description: string, parse: (text: string) => T): Option {
  const made = new Option(flags, description);
  return made.argParser(flag(made.long ?? flags, parse));
}

/** A flag that may be repeated: all that is given to it is one list. */
export class ListOption extends Option {
  /** @param parse Reads all that was given so far, in its order. */
  constructor(flags: string, description: string, parse: (texts: readonly string[]) => unknown) {
    super(flags, description);
    const texts: string[] = [];
    const parseLast = flag(this.long ?? flags, () => parse(texts));
    this.argParser((text) => {
      texts.push(text);
      return parseLast(text);
    });
  }
}

/** A flag whose value is a list; where it is repeated, its lists are one. */
export function listOption<T>(
  flags: string,
  description: string,
  parse: (text: string) => T,
  separator = ',',
): ListOption {
  return new ListOption(flags, description, (texts) => parse(texts.join(separator)));
}

/**
 * Has a command, and those below it, refuse what commander drops without a word: a flag of one value that is given again,
 * and a flag beside its contrary.
 */
export function refuseRepeats(command: Command): void {
  const given: Option[] = [];
  for (const made of command.options) {
    if (made instanceof ListOption) continue;
    command.on(`option:${made.name()}`, () => {
      for (const before of given) refuseBoth(before, made);
      given.push(made);
    });
  }
  for (const below of command.commands) refuseRepeats(below);
}

function refuseBoth(before: Option, made: Option): void {
  if (before.attributeName() !== made.attributeName()) return;
  if (before !== made) throw contradiction(before.negate ? made : before, before.negate ? before : made);
  if (made.required || made.optional) throw givenTwice(made.long ?? made.flags);
}

function contradiction(made: Option, contrary: Option): InputError {
  return new InputError(`${made.long}: it contradicts ${contrary.long}; leave out one of them`);
}

/** What is wrong where a flag of one value has two. */
export function givenTwice(name: string): InputError {
  return new InputError(`${name}: it is given twice; give it once`);
}
