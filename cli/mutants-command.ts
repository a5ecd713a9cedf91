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
Each mutant is one changed line of the policy or of the cluster. There is one search per mutant and seed. A search that
does not detect its mutant counts as --runs schedules. Exits with 4 if a mutant survives half of its searches.
A third of the mutants, selected by name, is held out: the search is not tuned with them. Detections and their numbers
of schedules do not depend on the number of workers. The CPU time is that of the worker's process, without its start.

Examples:
  lockstep mutants
  lockstep mutants --seeds 1 --runs 1000
  lockstep mutants --strategies                 all strategies side by side, 5 seeds of 20000`;

/** Defines `mutants`. */
export function defineMutants(program: Command, io: Io, finish: Finish): void {
  program
    .command('mutants')
    .description('measure how fast the search detects planted bugs (mutants)')
    .addOption(option('--runs <n>', 'maximum number of schedules per search (10000)', whole(1, MOST_RUNS)))
    .addOption(option('--seeds <n>', 'number of searches per mutant (15)', whole(1, MOST_SEEDS)))
    .addOption(option('--strategy <name>', 'how to generate schedules (combination)', word(...STRATEGY_NAMES)))
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
