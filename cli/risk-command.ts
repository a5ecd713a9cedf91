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
Estimates the violations per year of a system, with a 95 % interval: by cause, and after each change that its client and
servers allow. The assumptions are printed first: the estimate is only as good as they are.

The file describes the system, as for "lockstep advise", and the rates of events:
  { "nodes": { "count": 3, "persistence": "everysec", "restart": "1s", "supervisor": "systemd" },
    "client": { "library": "redsync-4", "ttl": "8s" },
    "rates": { "locks": { "perDay": 20000, "contended": "20%",
                          "last": [{ "share": "95%", "for": "200ms" }, { "share": "5%", "for": "3s" }] },
               "crashes": { "perMonth": 0.5, "for": "1s..30s" },
               "clockSteps": { "perYear": 4, "by": "128ms..10s" },
               "pauses": [{ "perDay": 2000, "for": "10ms..200ms" }, { "perMonth": 5, "for": "1s..20s" }] } }
A rate is per node or per client. A list of entries is a histogram. "typical" in place of a rate uses a published range
(--typical shows it, with sources), and both of its ends are estimated. docs/guide-risk.md has all fields.

Each cause has a run that shows it, in .lockstep/risk, for "lockstep replay".

Exits with 0. Exits with 1 if the upper end of the interval is above --at-most, and with 130 when interrupted.

Examples:
  lockstep risk examples/risk/system.json
  lockstep risk examples/risk/system.json --profile reference --persistence always
  lockstep risk examples/risk/system.json --at-most 0.01 --no-changes --json
  lockstep risk examples/risk/system.json --report risk.html
  lockstep risk --typical                             published rates of events`;

/** Defines `risk`. */
export function defineRisk(program: Command, io: Io, finish: Finish): void {
  program
    .command('risk')
    .description('estimate violations per year, with an interval, by cause and by change')
    .argument('[file]', 'description of the system with its rates: JSON, TypeScript or JavaScript')
    .option('--profile <profile>', 'client profile instead of that of the file; see list --profiles')
    .addOption(
      option(
        '--persistence <none|rdb|everysec|always>',
        'which data survive a crash or a power loss, on all nodes',
        word('none', 'rdb', 'everysec', 'always'),
      ),
    )
    .addOption(option('--nodes <n>', 'number of nodes, each like the first one of the file', whole(1, MOST_NODES)))
    .addOption(option('--ttl <duration>', 'time to live of locks', wholeMs))
    .addOption(option('--restart-delay <duration>', 'least downtime of a stopped node', parseDuration))
    .addOption(option('--at-most <n>', 'exit with 1 if the interval allows more violations per year', amount))
    .option('--no-changes', 'estimate the system only as it is, without changes')
    .option('--typical', 'print published rates of events, and estimate nothing')
    .addOption(option('--runs <n>', 'number of simulated runs per estimate (40000)', whole(100, MOST_RUNS)))
    .option('--seed <text>', 'random seed (1)')
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
