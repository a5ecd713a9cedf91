import type { Command } from 'commander';
import { InputError, show } from '../scenarios/input-error.js';
import { meant } from '../scenarios/nearest.js';

const EXAMPLES = `
The same as --help after the verb.

Examples:
  lockstep help
  lockstep help check
  lockstep help campaign merge`;

/** Defines `help`. */
export function defineHelp(program: Command): void {
  program
    .command('help')
    .description('print the help of a verb, or this')
    .argument('[verb...]', 'a verb, and what is below it')
    .addHelpText('after', EXAMPLES)
    .action((names: readonly string[]) => names.reduce(below, program).outputHelp());
}

function below(command: Command, name: string): Command {
  const found = command.commands.find((it) => it.name() === name);
  if (found !== undefined) return found;
  const names = command.commands.map((it) => it.name());
  if (names.length === 0) throw new InputError(`${command.name()} has no verbs below it; leave out ${show(name)}`);
  throw new InputError(`${show(name)} is no verb; ${meant(name, names, 'there are')}`);
}
