import type { Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import type { McpFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';

const EXAMPLES = `
Speaks the Model Context Protocol over stdin and stdout, for programs that write code. Its tools are audit (a
file below the root, or the text of one), replay (of a finding) and rules; what they answer is what
audit --json prints. A call ends after --limit with what was found until then. Files are run, as by audit:
the root bounds what is named, and is no sandbox.

Examples:
  lockstep mcp
  lockstep mcp --root ./services/billing`;

/** Defines `mcp`. */
export function defineMcp(program: Command, io: Io, finish: Finish): void {
  program
    .command('mcp')
    .description('serve audits to assistants, over stdio')
    .option('--root <folder>', 'nothing above it is read or written (the working directory)')
    .addOption(
      option('--limit <duration>', 'longest time of a call (50s): many clients wait for a minute', parseDuration),
    )
    .addHelpText('after', EXAMPLES)
    .action(async (flags: McpFlags) => {
      const { mcp } = await import('./mcp.js');
      finish(await mcp(flags, io));
    });
}
