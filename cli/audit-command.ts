import { type Command, Option } from 'commander';
import type { ClientKind } from '../audit/clients.js';
import { InputError } from '../scenarios/input-error.js';
import type { AuditFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';
import { reporterOption } from './reporters/option.js';
import { flag, whole, word } from './values.js';

const MOST_NODES = 31;
const MOST_RUNS = 1_000_000;
const CLIENTS: readonly [ClientKind, ...ClientKind[]] = ['ioredis', 'node-redis', 'upstash', 'iovalkey'];

const EXAMPLES = `
Loads a file of yours, as it is, inside simulated processes, and finds out how its lock is used: functions
that run work under the lock, pairs that acquire and release, classes, factories, request handlers, cron
guards. Its clients lead to simulated Redis nodes, whether it makes them itself or is handed them. Then it
searches for the schedule that breaks the lock. A lock on one node is not blamed for the loss of its node.

Of several files, or of a pattern in quotes, those without a lock are left out.

Exits with 0 if nothing was found, or nothing that is not in the baseline, with 1 if a lock is not safe, with 2
if nothing can be said of a lock, and with 64 if the one file cannot be audited. With --replay, exits with 0 if
the finding is there again, and with 3 if not.

Examples:
  lockstep audit ./lock.ts
  lockstep audit ./lock.ts --test             write a test that can be committed
  lockstep audit ./lock.ts --acquire tryLock --release unlock
  lockstep audit ./lock.ts --json
  lockstep audit "src/**/*lock*.ts" --baseline lockstep-baseline.json --reporter sarif
  lockstep audit "src/**/*lock*.ts" --baseline lockstep-baseline.json --accept
  lockstep audit --replay .lockstep/audit/lock-blind-release-14e62039.json`;

/** Defines `audit`. */
export function defineAudit(program: Command, io: Io, finish: Finish): void {
  program
    .command('audit')
    .description('is the lock in this file safe? any file, no adapter')
    .argument('[files...]', 'JavaScript or TypeScript; patterns too')
    .option('--acquire <name>', 'function or method that acquires, where it is not found')
    .option('--release <name>', 'function or method that releases')
    .addOption(
      new Option(
        '--client <name>',
        'client that the lock is handed: ioredis, node-redis, upstash or iovalkey',
      ).argParser(flag('--client', word(...CLIENTS))),
    )
    .addOption(option('--nodes <n>', 'number of nodes (what it connects to)', whole(1, MOST_NODES)))
    .addOption(option('--runs <n>', 'most schedules (120)', whole(1, MOST_RUNS)))
    .option('--seed <text>', 'any text (lockstep)')
    .option('--test [file]', 'write a test for vitest beside the file')
    .option('--skip', 'leave out files without a lock, also where only one file is named')
    .option('--baseline <file>', 'findings in this file are accepted')
    .option('--accept', 'write the findings into the baseline')
    .option('--replay <file>', 'show a finding again, by the file of its schedule')
    .option('--report <path>', 'where a page goes if nothing is found in one file (none)')
    .addOption(reporterOption())
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (files: readonly string[], flags: AuditFlags) => {
      if (files.length === 0 && flags.replay === undefined)
        throw new InputError('audit what? Give a file, or a pattern such as "src/**/*lock*.ts"');
      const { audit } = await import('./audit.js');
      finish(await audit(files, flags, io));
    });
}
