import type { Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import { integer } from '../scenarios/mitigation-values.js';
import type { ExploreFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { whole, word } from './values.js';

const MOST_TICKS = 60;
const MOST_STATES = 200_000_000;

const EXAMPLES = `
Visits every state that a small configuration of the production lock can reach: every order of messages, of crashes
and restarts, and of ticks of each clock. One tick is a millisecond. A message may take any time, so that losing it
adds nothing.
"safe" is said only of a space that was visited whole.

Examples:
  lockstep explore --crash 1 --restart-delay 0     a node forgets, and is back at once
  lockstep explore --crash 1 --restart-delay ttl   the same with a delayed restart
  lockstep explore --drift 1 --drift-allowance 1   a clock is off by a tick, which the lock allows for
  lockstep explore --sets 012,013 --ttl 2          two clients with other nodes, as in a rolling change of one
  lockstep explore --property fencing --crash 1 --restart-delay 0 --rollback 1
  lockstep explore --mutant M07 --nodes 4          a planted bug ("lockstep mutants" names them)
  lockstep explore --liveness --retries forever --timeout 1 --clients 1 --crash 1
  lockstep explore --drift 1 --drift-allowance 1 --crash 1 --restart-delay ttl --checkpoint big.space`;

/** Ticks, or one of some words. */
function ticksOr<const T extends string>(least: number, ...words: readonly T[]): (text: string) => number | T {
  return (text) => words.find((candidate) => candidate === text.trim()) ?? integer(text, least, MOST_TICKS, ...words);
}

/** Defines `explore`. */
export function defineExplore(program: Command, io: Io, finish: Finish): void {
  program
    .command('explore')
    .description('model-check a small configuration exhaustively')
    .addOption(option('--nodes <n>', 'Redis nodes (3)', whole(1, 7)))
    .addOption(option('--clients <n>', 'clients, of one acquisition each (2)', whole(1, 4)))
    .addOption(option('--ttl <ticks>', 'time to live (3)', whole(1, MOST_TICKS)))
    .addOption(option('--crash <n>', 'crashes of nodes, which forget (0)', whole(0, 7)))
    .addOption(
      option(
        '--restart-delay <ticks>',
        'until a crashed node answers again; or ttl, never (never)',
        ticksOr(0, 'ttl', 'never'),
      ),
    )
    .addOption(option('--rollback <n>', 'nodes that come back at once with their oldest dump (0)', whole(0, 3)))
    .addOption(option('--drift <n>', 'ticks that clocks gain or lose, in all (0)', whole(0, 7)))
    .addOption(
      option('--drift-allowance <ticks>', 'part of the TTL kept back for clock errors (0)', whole(0, MOST_TICKS)),
    )
    .addOption(option('--loss <n>', 'lost messages (0)', whole(0, 7)))
    .addOption(option('--pause <n>', 'pauses of clients, of any length (0)', whole(0, 7)))
    .addOption(option('--retries <n>', 'attempts after the first, or forever (0)', ticksOr(0, 'forever')))
    .addOption(option('--extensions <n>', 'extensions of each client (0)', whole(0, 7)))
    .option('--healing', 'extensions also set keys that are missing')
    .option('--releases', 'clients may release, at any time')
    .addOption(option('--link <kind>', 'fifo or reordering (fifo)', word('fifo', 'reordering')))
    .addOption(
      listOption('--sets <list>', 'by client: the nodes that it knows, by their digits, as in 012,013 (all)', (it) =>
        it.split(',').map((set) => set.trim()),
      ),
    )
    .addOption(
      option('--wait <ticks>', 'until clients with another set than the first ask; or ttl (0)', ticksOr(0, 'ttl')),
    )
    .option('--off <nodes>', 'nodes that go off for good as that wait begins, by their digits')
    .option('--drain', 'clients with the first set ask for nothing as that wait begins')
    .addOption(option('--timeout <ticks>', 'how long a client waits for a node, or never (never)', ticksOr(1, 'never')))
    .addOption(option('--mutant <id>', 'a planted bug of the policy, by its id', (id) => id))
    .addOption(
      option(
        '--property <id>',
        'mutual-exclusion, quorum-backed, acquisition or fencing (mutual-exclusion)',
        word('mutual-exclusion', 'quorum-backed', 'acquisition', 'fencing'),
      ),
    )
    .option('--liveness', 'instead: can the lock always be acquired still?')
    .addOption(
      option('--order <order>', 'breadth (shortest counterexample) or depth (breadth)', word('breadth', 'depth')),
    )
    .option('--no-symmetry', 'tell nodes and clients apart by their names')
    .option('--no-reduction', 'keep what the property cannot tell apart')
    .addOption(option('--max-states <n>', 'visit no more states than these (50000000)', whole(1, MOST_STATES)))
    .addOption(option('--budget <time>', 'stop after this time, such as 60s', parseDuration))
    .option('--checkpoint <file>', 'go on from this file if it is there, and write it when stopped')
    .option('--report <path>', 'where a page goes if nothing is violated (none)')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: ExploreFlags) => {
      if (flags.liveness && (flags.property ?? flags.order) !== undefined) {
        throw new InputError(`--liveness: leave out ${show(flags.property === undefined ? '--order' : '--property')}`);
      }
      const { exploreSpace } = await import('./explore.js');
      finish(await exploreSpace(flags, io));
    });
}
