import type { Command } from 'commander';
import type { McpFlags } from './flags.js';
import type { Finish, Io } from './io.js';

const EXAMPLES = `
Speaks the Model Context Protocol over stdin and stdout, for programs that write code. Its tools are audit (a
file below the root, or the text of one), replay (of a finding) and rules; what they answer is what
audit --json prints. A call ends after 50 seconds with what was found until then. Files are run, as by audit:
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
    .addHelpText('after', EXAMPLES)
    .action(async (flags: McpFlags) => {
      const { mcp } = await import('./mcp.js');
      finish(await mcp(flags, io));
    });
}
