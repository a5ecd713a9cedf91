import type { Command } from 'commander';
import { InputError, show } from '../scenarios/input-error.js';
import { meant } from '../scenarios/nearest.js';
import { wrap } from '../text/format.js';

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
    .description('print the help of a verb, or this list')
    .argument('[verb...]', 'a verb, and its subcommand')
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

/** Breaks lines that are longer than a terminal is wide between their words, below where their last column begins. */
export function fitted(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap((line) => (line.length <= width ? [line] : folded(line, width)))
    .join('\n');
}

const LEAST_COLUMN = 20;

function folded(line: string, width: number): string[] {
  const [margin = ''] = /^ */.exec(line) ?? [];
  const [before = margin] = /^.*\S {2,}(?=\S)/.exec(line) ?? [];
  const longest = Math.max(LEAST_COLUMN, ...line.split(' ').map((word) => word.length));
  // Where the last column has no room for its words, all of the line is folded below its beginning.
  const hanging = [before, margin].find((it) => width - it.length >= longest) ?? '';
  const lines = wrap(line.slice(hanging.length).trimStart(), width - hanging.length);
  return lines.map((words, i) => `${i === 0 ? hanging : ' '.repeat(hanging.length)}${words}`.trimEnd());
}
