import type { Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import type { McpFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';

const EXAMPLES = `
Speaks the Model Context Protocol over stdin and stdout, for coding assistants. Its tools are audit (a file below the
root, or the text of a file), replay (of a finding) and rules. Their answers are the output of audit --json. A call ends
after --limit with the findings so far. Files are run, as by audit: the root limits paths, and is not a sandbox.

Examples:
  lockstep mcp
  lockstep mcp --root ./services/billing`;

/** Defines `mcp`. */
export function defineMcp(program: Command, io: Io, finish: Finish): void {
  program
    .command('mcp')
    .description('serve audits to coding assistants, over stdio')
    .option('--root <folder>', 'read and write nothing outside this folder (the working directory)')
    .addOption(
      option('--limit <duration>', 'time limit of a call: many clients wait for a minute (50s)', parseDuration),
    )
    .addHelpText('after', EXAMPLES)
    .action(async (flags: McpFlags) => {
      const { mcp } = await import('./mcp.js');
      finish(await mcp(flags, io));
    });
}
