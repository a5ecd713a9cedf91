import { type Answer, comparable } from './answers.js';
import { below, fromTemplate, KEYS, oneOf, type Random, spoiled } from './draw.js';
import { libraryScripts, OWN_LIBRARIES, OWN_SCRIPTS } from './scripts.js';
import { type ClockedServer, type Side, START_US } from './servers.js';
import { EXACT, FUNCTION_CALLS, TEMPLATES } from './templates.js';

/** A command that two servers answered in different ways. */
export interface Difference {
  readonly command: readonly string[];
  readonly real: string;
  readonly simulated: string;
  /** The commands of its batch before it. */
  readonly before: readonly (readonly string[])[];
}

const NO_ANSWER: Answer = ['?', null];
/** Steps of the clock a second: parts that binary fractions are exact on. */
const STEPS = 64;
const CONNECTIONS = 3;
const BATCHES = 12;
const BATCH = 120;
const DATABASES = Array.from({ length: 16 }, (_, index) => String(index));

const LIBRARIES: readonly string[] = libraryScripts();

/** How many scripts of libraries take part. */
export const LIBRARY_SCRIPTS: number = LIBRARIES.length;

function drawScript(random: Random): string[] {
  const keys = Array.from({ length: 1 + below(random, 3) }, () => oneOf(random, KEYS));
  const ofLibrary = random() < 0.5;
  // Some scripts of libraries count up to an argument, which is therefore small.
  const value = ofLibrary ? 'X small' : 'X value';
  const argv = Array.from({ length: below(random, 4) }, () => fromTemplate(random, value)[1] ?? '');
  if (!ofLibrary && random() < 0.3) argv.push('1000', String(START_US / 1000));
  const name = random() < 0.1 ? 'EVAL_RO' : 'EVAL';
  return [name, oneOf(random, ofLibrary ? LIBRARIES : OWN_SCRIPTS), String(keys.length), ...keys, ...argv];
}

function drawFunction(random: Random): string[] {
  if (random() < 0.7) return fromTemplate(random, FUNCTION_CALLS[below(random, FUNCTION_CALLS.length)] ?? '');
  return ['FUNCTION', 'LOAD', ...(random() < 0.7 ? ['REPLACE'] : []), oneOf(random, OWN_LIBRARIES)];
}

function drawCommand(random: Random): readonly string[] {
  if (random() < 0.04) return drawScript(random);
  if (random() < 0.02) return drawFunction(random);
  const argv = fromTemplate(random, oneOf(random, TEMPLATES));
  const name = (argv[0] ?? '').toLowerCase();
  return EXACT.has(name) || argv[1] === 'level' ? argv : spoiled(random, argv);
}

/** Two servers side by side, which are given the same random commands at the same times. */
export class Comparison {
  private readonly servers: readonly [real: ClockedServer, simulated: ClockedServer];
  private readonly random: Random;
  private pairs: (readonly [Side, Side])[] = [];
  private keepers: readonly [Side, Side] | null = null;
  private readonly queued: (string[] | null)[] = [];
  private nowUs = START_US;
  commands = 0;
  readonly differences: Difference[] = [];

  constructor(real: ClockedServer, simulated: ClockedServer, random: Random) {
    this.servers = [real, simulated];
    this.random = random;
  }

  private async open(): Promise<readonly [Side, Side]> {
    const [real, simulated] = this.servers;
    return [await real.open(), await simulated.open()];
  }

  /** Runs one sequence from empty servers. */
  async sequence(): Promise<void> {
    while (this.pairs.length < CONNECTIONS) this.pairs.push(await this.open());
    this.keepers ??= await this.open();
    for (const [i, sides] of this.pairs.entries()) {
      this.queued[i] = null;
      await Promise.all(sides.map((side) => side.ask([['RESET']])));
    }
    await this.keep([['FLUSHALL'], ['FUNCTION', 'FLUSH']]);
    for (let i = 0; i < BATCHES; i++) {
      await this.batch(below(this.random, CONNECTIONS));
      await this.elapse();
    }
  }

  private async keep(commands: readonly (readonly string[])[]): Promise<void> {
    await Promise.all((this.keepers ?? []).map((side) => side.ask(commands)));
  }

  /** Time goes on, and keys that have expired go at once: when a server looks for them by itself is its own affair. */
  private async elapse(): Promise<void> {
    this.nowUs += below(this.random, 3 * STEPS) * (1_000_000 / STEPS);
    for (const server of this.servers) server.setClock(this.nowUs);
    await this.keep(
      DATABASES.flatMap((index) => [
        ['SELECT', index],
        ['SCAN', '0', 'COUNT', '100000'],
      ]),
    );
  }

  private async batch(index: number): Promise<void> {
    const commands = Array.from({ length: BATCH }, () => drawCommand(this.random));
    const [real = [], simulated = []] = await Promise.all((this.pairs[index] ?? []).map((side) => side.ask(commands)));
    for (const [i, command] of commands.entries()) {
      this.commands++;
      const [a, b]: readonly Answer[] = [real[i] ?? NO_ANSWER, simulated[i] ?? NO_ANSWER];
      const name = (command[0] ?? '').toLowerCase();
      const [left, right] = [a, b].map((it) => comparable(name, it ?? NO_ANSWER, this.queued[index] ?? []));
      if (left !== right)
        this.differences.push({ command, real: left ?? '', simulated: right ?? '', before: commands.slice(0, i) });
      this.follow(index, command, a ?? NO_ANSWER);
    }
  }

  /** Keeps the names of the commands of a transaction: their answers come without. */
  private follow(index: number, command: readonly string[], [, content]: Answer): void {
    const name = (command[0] ?? '').toLowerCase();
    if (content === 'QUEUED') this.queued[index] = [...(this.queued[index] ?? []), name];
    else if (['exec', 'discard', 'reset'].includes(name)) this.queued[index] = null;
  }
}
