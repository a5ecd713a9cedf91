import type { Command } from 'commander';
import { MOST_NODES } from '../core/nodes.js';
import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import { wholeMs } from '../scenarios/mitigation-values.js';
import type { RiskFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';
import { whole, word } from './values.js';
import { workersOption } from './workers.js';

const MOST_RUNS = 1_000_000_000;

const EXAMPLES = `
How many violations a year are to be expected of a system, with a 95 % interval, by cause, and with each change that its
client and its servers have. The assumptions come first: the figure is worth as much as they are.

The file describes the system, as for "lockstep advise", and how often things happen:
  { "nodes": { "count": 3, "persistence": "everysec", "restart": "1s", "supervisor": "systemd" },
    "client": { "library": "redsync-4", "ttl": "8s" },
    "rates": { "locks": { "perDay": 20000, "contended": "20%",
                          "last": [{ "share": "95%", "for": "200ms" }, { "share": "5%", "for": "3s" }] },
               "crashes": { "perMonth": 0.5, "for": "1s..30s" },
               "clockSteps": { "perYear": 4, "by": "128ms..10s" },
               "pauses": [{ "perDay": 2000, "for": "10ms..200ms" }, { "perMonth": 5, "for": "1s..20s" }] } }
A rate is of one node or one client. A list of entries is a histogram. "typical" in place of a rate takes what was
published (--typical shows it, with sources), and both ends of it are estimated. docs/guide-risk.md has all fields.

Each cause comes with a run that shows it, in .lockstep/risk, for "lockstep replay".

Exits with 0, with 1 if --at-most is given and the upper end of the interval is above it, with 130 when interrupted.

Examples:
  lockstep risk examples/risk/system.json
  lockstep risk examples/risk/system.json --profile reference --persistence always
  lockstep risk examples/risk/system.json --at-most 0.01 --no-changes --json
  lockstep risk examples/risk/system.json --report risk.html
  lockstep risk --typical                             what is known of how often things happen`;

/** Defines `risk`. */
export function defineRisk(program: Command, io: Io, finish: Finish): void {
  program
    .command('risk')
    .description('violations to be expected a year, with an interval, by cause and by change')
    .argument('[file]', 'a description of the system with its rates: JSON, TypeScript or JavaScript')
    .option('--profile <profile>', 'another client than that of the file, as list --profiles names it')
    .addOption(
      option(
        '--persistence <none|rdb|everysec|always>',
        'what survives a crash or a loss of power, on all nodes',
        word('none', 'rdb', 'everysec', 'always'),
      ),
    )
    .addOption(option('--nodes <n>', 'another number of nodes, each as the first one', whole(1, MOST_NODES)))
    .addOption(option('--ttl <duration>', 'time to live of locks', wholeMs))
    .addOption(option('--restart-delay <duration>', 'the soonest that a stopped node serves again', parseDuration))
    .addOption(option('--at-most <n>', 'exit with 1 if more violations a year are possible', amount))
    .option('--no-changes', 'estimate the system as it is, and no changes of it')
    .option('--typical', 'print what was published on how often things happen, and estimate nothing')
    .addOption(option('--runs <n>', 'runs of the engine for each estimate (40000)', whole(100, MOST_RUNS)))
    .option('--seed <text>', 'where chance begins ("1")')
    .addOption(workersOption())
    .option('--report <file.html>', 'write the estimate as a page')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string | undefined, flags: RiskFlags) => {
      const { risk } = await import('./risk.js');
      finish(await risk(file, flags, io));
    });
}

function amount(text: string): number {
  const number = /^\d+(\.\d+)?(e-?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  if (Number.isFinite(number)) return number;
  throw new InputError(`${show(text)} is not a number from 0 up; write it like 0.01 or 1e-6`);
}
