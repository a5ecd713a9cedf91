import type { Command } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { SEARCHED } from '../properties/property-lists.js';
import { parseDuration } from '../scenarios/duration.js';
import { percent } from '../scenarios/mitigation-values.js';
import type { PropertyId } from '../scenarios/scenario.js';
import { faultChoice } from '../search/fault-choice.js';
import { BOUND_IDS } from '../search/fault-model.js';
import { STRATEGY_INFO, STRATEGY_NAMES } from '../search/strategy-info.js';
import type { CheckFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption, option } from './option.js';
import { reporterOption } from './reporters/option.js';
import { delayOrTtl, ttls, votes, whole, word, wordList } from './values.js';
import { workersOption } from './workers.js';

const WORDS_A_LINE = 5;
const MOST_CLIENTS = 16;
const MOST_RUNS = 1_000_000_000_000;

const EXAMPLES = `
Without --faults: all that the lock claims to withstand, up to the edge of its assumptions.
With --faults crash=1,clock-step=50ms: only these, in these amounts, whatever the lock assumes; none: no fault.
With --faults +crash=1,-suspend: the default, with more of one kind and without another.
  crash=N, power-loss=N                  nodes whose process dies, or that lose their power
  pause=N, suspend=N, client-crash=N, partition=N
                                         at most so many a run
  failover=N, data-loss=N, error-replies=N
                                         nodes that fail over, lose keys, answer with errors
  wall-step=N                            clients' wall clocks that are set, by any time
  replica-lag=100ms                      how far replicas are behind
  clock-step=50ms, clock-drift=1%        clock steps in sum, rate error of clocks
  late=100%                              writes as late as this share of what their check allows
  loss=2%, duplicate=2%, delay=2%        shares of messages
What a crash or a loss of power leaves of a node is a matter of --persistence.

Properties, several with commas between:
${wrapped(SEARCHED)}
With fencing among them, locks come with fencing tokens, and the resource looks at them.
Without --properties: mutual-exclusion, quorum-backed and no-stale-write. Where the search goes beyond what
the lock assumes, the last two count only in schedules that keep to it.

Strategies:
${STRATEGY_NAMES.map((name) => `  ${name.padEnd(13)}${STRATEGY_INFO[name].story}`).join('\n')}

Known schedules are replayed first: those in .lockstep/failures and those that are committed in
lockstep/regressions. One that does not reproduce as it was written down ends it with 3. A failure is replayed
with today's --profile, --nodes, --ttl, --drift-allowance, --target-votes, --persistence and --restart-delay
too, where they are given: it still fails, or passes. One that is committed and still fails ends it with 1.

Examples:
  lockstep check                                      the safe configuration
  lockstep check --demo                               a violation, to see what one looks like
  lockstep check --faults crash=1 --restart-delay 0   nodes that crash come back at once, empty
  lockstep check --faults crash=1 --restart-delay 0 --persistence everysec
                                                      a process dies while its fsync runs
  lockstep check --exceed restart-delay               exceed one bound by 2 %: the search should now fail
  lockstep check --nodes 3 --ttl 10s --budget 30s
  lockstep check --reporter junit                     for continuous integration; or github, minimal, json
  lockstep check S13                                  around the cluster and faults of a scenario`;

/** The flags that say what is searched, and how much of it. */
export function searchOptions(command: Command): Command {
  return command
    .addOption(option('--nodes <n>', 'number of nodes (5)', whole(1, MOST_NODES)))
    .addOption(option('--clients <n>', 'number of clients (3)', whole(1, MOST_CLIENTS)))
    .addOption(listOption('--ttl <duration,…>', 'time to live of keys, one a run (1s,10s,30s)', ttls))
    .addOption(option('--drift-allowance <percent>', 'share of the TTL kept back for clock errors (1%)', percent))
    .addOption(
      listOption('--faults <list>', 'only these faults, none, or changes of the default; see below', faultChoice),
    )
    .addOption(option('--restart-delay <duration|ttl>', 'crashed nodes come back after this', delayOrTtl))
    .addOption(
      option(
        '--persistence <none|rdb|everysec|always>',
        'what survives a crash or a loss of power (none)',
        word('none', 'rdb', 'everysec', 'always'),
      ),
    )
    .addOption(option('--target-votes <n|all|quorum>', 'votes that clients wait for', votes(MOST_NODES)))
    .addOption(option('--exceed <bound>', `exceed one bound: ${BOUND_IDS.join(', ')}`, word(...BOUND_IDS)))
    .addOption(option('--exceed-by <percent>', 'by how much, as a share of the bound (2%)', percent))
    .addOption(
      option('--strategy <name>', 'how to generate schedules (combination); see below', word(...STRATEGY_NAMES)),
    )
    .option('--profile <profile>', 'the client profile that clients follow (reference)')
    .addOption(option('--runs <n>', 'schedules to generate (10000; with --budget, no limit)', whole(1, MOST_RUNS)))
    .addOption(option('--budget <duration>', 'stop after this long', parseDuration))
    .addOption(workersOption())
    .option('--seed <text>', 'random seed (1)')
    .addOption(listOption('--properties <list>', 'what must hold; see below', searched));
}

/** Defines `check`. */
export function defineCheck(program: Command, io: Io, finish: Finish): void {
  const command = program
    .command('check')
    .description('search for a schedule that breaks the lock (the default verb)')
    .argument('[scenario]', 'search around this scenario (an id of the catalogue, or a file)');
  searchOptions(command)
    .option('--no-shrink', 'leave a failing schedule as it was found')
    .option('--regressions <folder>', 'schedules to replay first (lockstep/regressions, where it is there)')
    .option('--no-regressions', 'replay neither these nor the found failures first')
    .option('--report <path>', 'where the HTML report goes (a failure: beside its schedule)')
    .option('--demo', 'search where a violation is known to be; exits 0 if found, else 3')
    .addOption(reporterOption())
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (scenario: string | undefined, flags: CheckFlags) => {
      const { check } = await import('./check.js');
      finish(await check(scenario, flags, io));
    });
}

/** A list over lines. */
function wrapped(words: readonly string[]): string {
  const lines: string[] = [];
  for (let i = 0; i < words.length; i += WORDS_A_LINE) lines.push(`  ${words.slice(i, i + WORDS_A_LINE).join(', ')}`);
  return lines.join('\n');
}

function searched(text: string): PropertyId[] {
  return wordList('a property that the search looks for', SEARCHED)(text);
}
