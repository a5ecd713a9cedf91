import type { Command } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import { STRATEGY_NAMES } from '../search/strategy-info.js';
import type { MutantsFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';
import { reporterOption } from './reporters/option.js';
import { whole, word } from './values.js';
import { workersOption } from './workers.js';

const MOST_RUNS = 1_000_000_000;
const MOST_SEEDS = 1_000;

const EXAMPLES = `
Each bug is one changed line of the policy or of the cluster. It is hunted once for each seed; a search
that does not catch it counts as --runs histories. Exits with 4 if a bug gets away in half of its searches.
A third of the bugs, drawn by their names, is held out: nobody tunes the search by them. What is
caught, and after how many schedules, is the same with any number of workers; the CPU time is that of the
worker's process, its start left out.

Examples:
  lockstep mutants
  lockstep mutants --seeds 1 --runs 1000
  lockstep mutants --strategies                 all strategies side by side, 5 seeds of 20000`;

/** Defines `mutants`. */
export function defineMutants(program: Command, io: Io, finish: Finish): void {
  program
    .command('mutants')
    .description('measure how fast the search detects planted bugs')
    .addOption(option('--runs <n>', 'schedules of one search at most (10000)', whole(1, MOST_RUNS)))
    .addOption(option('--seeds <n>', 'searches for each bug (15)', whole(1, MOST_SEEDS)))
    .addOption(option('--strategy <name>', 'how to draw schedules (combination)', word(...STRATEGY_NAMES)))
    .addOption(workersOption())
    .option('--strategies', 'compare all strategies')
    .addOption(reporterOption())
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: MutantsFlags) => {
      if (flags.strategies) {
        if (flags.reporter !== undefined) throw new InputError('--strategies: it is a table; leave out --reporter');
        if (flags.strategy !== undefined)
          throw new InputError('--strategies: it compares all of them; leave out --strategy');
        const { compareStrategies } = await import('./mutants-strategies.js');
        finish(await compareStrategies(flags, io));
        return;
      }
      const { mutants } = await import('./mutants.js');
      finish(await mutants(flags, io));
    });
}
