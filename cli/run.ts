import { Command, CommanderError } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import { withoutPasswords } from '../text/secrets.js';
import { shellCommand } from '../text/shell.js';
import { defineAdvise } from './advise-command.js';
import { defineAudit } from './audit-command.js';
import { defineBench } from './bench-command.js';
import { defineCampaign } from './campaign-command.js';
import { defineChaos } from './chaos-command.js';
import { defineCheck } from './check-command.js';
import { defineCompletion } from './completion-command.js';
import { applyConfig, configChoice, isConfigured, loadConfig } from './config.js';
import { defineDoctor } from './doctor-command.js';
import { Exit } from './exit-codes.js';
import { defineExplore } from './explore-command.js';
import { defineHelp, fitted } from './help-command.js';
import { type Finish, type Io, printableOut, say, widthOf } from './io.js';
import { defineLibraries } from './libraries-command.js';
import { defineList } from './list-command.js';
import { defineMcp } from './mcp-command.js';
import { defineMutants } from './mutants-command.js';
import { refuseRepeats } from './option.js';
import { definePlayground } from './playground-command.js';
import { withNamesOfToday } from './renamed.js';
import { defineReplay } from './replay-command.js';
import { defineRisk } from './risk-command.js';
import { defineSweep } from './sweep-command.js';
import { defineVerify } from './verify-command.js';
import { version } from './version.js';

const DEFAULT_VERB = 'check';
/** What somebody sees who has only just met the command. */
const DEMONSTRATION: readonly string[] = [DEFAULT_VERB, '--demo'];
const CONFIGURATION = `
lockstep.config.{ts,mjs,js,json} may set defaults of flags by verb, as in { "check": { "ttl": "5s" } }. Flags on the
command line override them. --config <file> reads another file, --no-config reads none.

A flag with a list may be repeated, and its lists add up. Any other flag may be given once.`;
const EXIT_CODES = `
Exit codes: 0 passed or reproduced · 1 violated or unavailable · 2 inconclusive · 3 not reproduced ·
4 too slow · 64 wrong usage or input · 70 internal error · 130 interrupted`;

/**
 * Runs the command with its arguments, and returns its exit code. It never throws: what is wrong is said in one
 * sentence on stderr.
 */
export async function run(argv: readonly string[], given: Io): Promise<number> {
  const again = shellCommand(given.command, ...argv.map(withoutPasswords));
  const io: Io = { ...given, again, stdout: printableOut(given.stdout), stderr: printableOut(given.stderr) };
  let code: number = Exit.ok;
  const program = makeProgram(io, (finished) => {
    code = finished;
  });
  try {
    const choice = configChoice(argv);
    const isBare = choice.argv.length === 0 && !isConfigured(choice, io.cwd);
    const words = isBare ? DEMONSTRATION : withNamesOfToday(withVerb(choice.argv), io);
    let configured: string | null = null;
    program.hook('preAction', async (_program, verb) => {
      const config = choice.file === false ? null : await loadConfig(choice.file, io.cwd);
      if (config === null) return;
      const flags = applyConfig(config, verb);
      if (flags.length === 0) return;
      const instead = shellCommand(io.command, ...[...words, ...flags, '--no-config'].map(withoutPasswords));
      configured = `configured by ${config.path}; without it: ${instead}`;
    });
    await program.parseAsync(words, { from: 'user' });
    if (configured !== null && FAILURES.includes(code)) say(io, configured);
    return code;
  } catch (error) {
    return tell(error, io);
  }
}

/** Exit codes after which it matters how things were configured. */
const FAILURES: readonly number[] = [Exit.violated, Exit.inconclusive, Exit.notReproduced, Exit.tooSlow];

/** Where no terminal says how wide it is: of the lists of flags, and of the texts below them, which are lines already. */
const USUAL_HELP_WIDTH = 80;
const WIDEST_HELP = 120;

function makeProgram(io: Io, finish: Finish): Command {
  const program = new Command('lockstep')
    .description('Find schedules that break a distributed lock.')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(fitted(text, widthOf(io, WIDEST_HELP))),
      getOutHelpWidth: () => widthOf(io, USUAL_HELP_WIDTH),
      writeErr: (text) => io.stderr.write(text),
      // Said by `tell`, in this command's own form.
      outputError: () => {},
    })
    .addHelpText(
      'after',
      `\nThe default verb is ${DEFAULT_VERB}; without arguments, it is ${DEMONSTRATION.join(' ')}. Every verb has --help, and all but mcp have --json.\n${CONFIGURATION}\n${EXIT_CODES}`,
    );
  defineCheck(program, io, finish);
  defineReplay(program, io, finish);
  defineExplore(program, io, finish);
  defineSweep(program, io, finish);
  defineAdvise(program, io, finish);
  defineRisk(program, io, finish);
  defineList(program, io, finish);
  definePlayground(program, io, finish);
  defineMutants(program, io, finish);
  defineLibraries(program, io, finish);
  defineAudit(program, io, finish);
  defineMcp(program, io, finish);
  defineVerify(program, io, finish);
  defineBench(program, io, finish);
  defineChaos(program, io, finish);
  defineCampaign(program, io, finish);
  defineDoctor(program, io, finish);
  defineCompletion(program, io, finish);
  defineHelp(program);
  refuseRepeats(program);
  return program;
}

/** Flags without a verb are those of the default verb. */
function withVerb(argv: readonly string[]): string[] {
  const [first] = argv;
  const own = ['-h', '--help', '-V', '--version'];
  const isFlag = first === undefined || (first.startsWith('-') && !own.includes(first));
  return isFlag ? [DEFAULT_VERB, ...argv] : [...argv];
}

const HELP_CODES: readonly string[] = ['commander.help', 'commander.helpDisplayed', 'commander.version'];

function tell(error: unknown, io: Io): number {
  if (error instanceof CommanderError) {
    if (HELP_CODES.includes(error.code)) return Exit.ok;
    return fail(io, usageSentence(error.message), Exit.usage);
  }
  if (error instanceof InputError) return fail(io, error.message, Exit.usage, error);
  // Known by its name: the room that has it is loaded only where it is needed.
  if (error instanceof Error && (error.name === 'ProvisionError' || error.name === 'UnsupportedClient'))
    return fail(io, error.message, Exit.inconclusive, error);
  const message = error instanceof Error ? error.message : String(error);
  return fail(io, `internal error: ${message} (LOCKSTEP_DEBUG=1 shows where)`, Exit.internal, error);
}

function fail(io: Io, sentence: string, code: number, error?: unknown): number {
  say(io, sentence);
  if (io.env.LOCKSTEP_DEBUG && error instanceof Error) io.stderr.write(`${withoutPasswords(error.stack ?? '')}\n`);
  return code;
}

/** Commander's message as one sentence. */
function usageSentence(message: string): string {
  const sentence = message
    .replace(/^error: /, '')
    .replace(/\s*\n\s*/g, ' ')
    .trim()
    .replace(/\.$/, '');
  return sentence.includes('(Did you mean') ? sentence.replace('(Did', '(did') : `${sentence}; see --help`;
}
