import { type Command, Option } from 'commander';
import type { ClientKind } from '../audit/index.js';
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
Loads a file, unmodified, in simulated processes, and finds out how to use its lock: functions that run work under the
lock, pairs that acquire and release, classes, factories, request handlers, cron guards. Its clients connect to
simulated Redis nodes, whether the file makes them or takes them as arguments. Then the audit searches for a schedule
that breaks the lock. It does not report that a lock on one node is lost with its node.

Of several files, or of a pattern in quotes, files without a lock are skipped.

Exits with 0 if nothing was found, or nothing beyond the baseline. Exits with 1 if a lock is not safe, with 2 if there
is no verdict on a lock, and with 64 if the only file cannot be audited. With --replay, exits with 0 if the finding is
reproduced, and with 3 if not.

Examples:
  lockstep audit ./lock.ts
  lockstep audit ./lock.ts --test             write a test to commit
  lockstep audit ./lock.ts --acquire tryLock --release unlock
  lockstep audit ./lock.ts --json
  lockstep audit "src/**/*lock*.ts" --baseline lockstep-baseline.json --reporter sarif
  lockstep audit "src/**/*lock*.ts" --baseline lockstep-baseline.json --accept
  lockstep audit --replay .lockstep/audit/lock-blind-release-14e62039.json`;

/** Defines `audit`. */
export function defineAudit(program: Command, io: Io, finish: Finish): void {
  program
    .command('audit')
    .description('audit the lock in any file, without an adapter')
    .argument('[files...]', 'JavaScript or TypeScript files, or patterns')
    .option('--acquire <name>', 'function or method that acquires, if the audit does not find it')
    .option('--release <name>', 'function or method that releases')
    .addOption(
      new Option('--client <name>', 'client to pass to the lock: ioredis, node-redis, upstash or iovalkey').argParser(
        flag('--client', word(...CLIENTS)),
      ),
    )
    .addOption(option('--nodes <n>', 'number of nodes (those that it connects to)', whole(1, MOST_NODES)))
    .addOption(option('--runs <n>', 'maximum number of schedules (120)', whole(1, MOST_RUNS)))
    .option('--seed <text>', 'random seed (lockstep)')
    .option('--test [file]', 'write a vitest test beside the file')
    .option('--skip', 'skip files without a lock, even if only one file is named')
    .option('--baseline <file>', 'accept the findings in this file')
    .option('--accept', 'write the current findings to the baseline')
    .option('--replay <file>', 'replay a finding by the file of its schedule')
    .option('--report <path>', 'write a report page here if nothing is found in one file (none)')
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
