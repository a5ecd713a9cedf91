import { current } from '../libraries/runtime/owner.js';
import { ProcessExit } from './evaluation.js';
import { periodFor } from './forms.js';
import { unitIn } from './units.js';
import { isQuantity } from './value-names.js';

/*
 * What stands for `commander` and `cac` in a script. The real one reads the arguments of the process that audits, and ends it where some are
 * missing. This one has arguments for all that the script declares, and calls the first action that it has.
 */

type Method = (...given: readonly unknown[]) => unknown;

const IS_NUMBER = /^(?:n|num|number|no|limit|max|min|ttl|timeout|interval|concurrency|days|hours|minutes|port|batch)$/i;
/** A usual number, and a usual time, ms. */
const NUMBER = '30';
const TIME_MS = 30_000;

/** A word on the command line, by what it is called. */
function wordFor(names: readonly string[]): string {
  const unitMs = names.map(unitIn).find((it) => it !== null) ?? null;
  if (unitMs !== null) return String(TIME_MS / unitMs);
  const period = names.map((it) => periodFor(it, 'a')).find((it) => it !== undefined);
  return period ?? (names.some((it) => IS_NUMBER.test(it) || isQuantity(it)) ? NUMBER : 'a');
}

/** What a script makes of a word; of a number where it makes none of the word. */
function parsed(parse: Method | undefined, words: readonly string[]): unknown {
  for (const word of words) {
    try {
      const made = parse === undefined ? word : parse(word, undefined);
      if (!Number.isNaN(made)) return made;
    } catch {
      // It wants another one.
    }
  }
  return undefined;
}

/** An option or an argument, as a script declares it: `new Option('--size <n>').default(10)`. */
class Declared {
  readonly text: string;
  private usual: unknown;
  private parse: Method | undefined;
  private allowed: readonly string[] = [];

  /** @param rest - What follows the description: a default, or what parses, and then a default. */
  constructor(text: unknown, _description?: unknown, ...rest: readonly unknown[]) {
    this.text = String(text);
    this.parse = typeof rest[0] === 'function' ? (rest[0] as Method) : undefined;
    this.usual = rest[this.parse === undefined ? 0 : 1];
    // `cac` has options of an option.
    if (Object(this.usual).default !== undefined) this.usual = Object(this.usual).default;
  }

  /** What it is called: `dryRun` of `-d, --dry-run`, and `catalog` of `<catalog>`. */
  get name(): string {
    const [, name = ''] = /--(?:no-)?([\w-]+)/.exec(this.text) ?? /([\w-]+)/.exec(this.text) ?? [];
    return name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  }

  get value(): unknown {
    if (this.usual !== undefined) return this.usual;
    const [, taken] = /[<[]([\w-]+)/.exec(this.text) ?? [];
    if (taken === undefined) return this.text.includes('--no-') ? true : undefined;
    const made = parsed(this.parse, [...this.allowed, wordFor([this.name, taken]), NUMBER]);
    return this.text.includes('...') && !Array.isArray(made) ? [made] : made;
  }

  default(usual: unknown): this {
    this.usual = usual;
    return this;
  }

  argParser(parse: Method): this {
    this.parse = parse;
    return this;
  }

  choices(allowed: readonly string[]): this {
    this.allowed = allowed;
    return this;
  }
}

type Methods = Readonly<Record<string, unknown>>;

/** A command of a script, what it is declared to take, and its own commands. */
class Command {
  readonly taken: Declared[] = [];
  readonly known: Declared[] = [];
  readonly inner: Command[] = [];
  outer: Command | null;
  action: Method | null = null;
  private isOver = false;
  /** As a script sees it. Most of its methods only describe it, and give it itself. */
  readonly shown: object;

  constructor(outer: Command | null = null) {
    this.outer = outer;
    const methods = methodsOf(this);
    this.shown = new Proxy(methods, {
      get: (_, name) => {
        if (name === 'then' || typeof name === 'symbol') return undefined;
        if (DECLARES.test(name)) this.declareAgain();
        return methods[name] ?? (() => this.shown);
      },
    });
    SHOWN.set(this.shown, this);
  }

  get options(): Record<string, unknown> {
    return Object.fromEntries(this.known.map(({ name, value }) => [name, value]));
  }

  get words(): unknown[] {
    return this.taken.map(({ value }) => value);
  }

  /** Calls its own action, or the first of its commands that has one. */
  begin(): unknown {
    this.isOver = true;
    const { action, shown, words, options } = this;
    if (action !== null) return action.call(shown, ...words, options, shown);
    return this.inner.find((it) => it.hasAction)?.begin();
  }

  /** The program that its files share is there when a process begins again. */
  private declareAgain(): void {
    if (!this.isOver) return;
    this.isOver = false;
    this.action = null;
    for (const it of [this.taken, this.known, this.inner]) it.length = 0;
  }

  get hasAction(): boolean {
    return this.action !== null || this.inner.some((it) => it.hasAction);
  }

  /** A command named like `import <file>`. */
  add(text: unknown): Command {
    const command = new Command(this);
    command.take(String(text).split(/\s+/).slice(1));
    this.inner.push(command);
    return command;
  }

  take(texts: readonly string[]): void {
    this.taken.push(...texts.filter((it) => /^[<[]/.test(it)).map((it) => new Declared(it)));
  }
}

const DECLARES = /^(?:\w*[aA]rguments?|\w*[oO]ption|\w*[cC]ommand|action)$/;
const SHOWN = new WeakMap<object, Command>();

function methodsOf(own: Command): Methods {
  const declaring =
    (into: Declared[]): Method =>
    (first, ...rest) => {
      into.push(first instanceof Declared ? first : new Declared(first, ...rest));
      return own.shown;
    };
  return {
    argument: declaring(own.taken),
    addArgument: declaring(own.taken),
    option: declaring(own.known),
    requiredOption: declaring(own.known),
    addOption: declaring(own.known),
    arguments: (texts: unknown) => {
      own.take(String(texts).split(/\s+/));
      return own.shown;
    },
    command: (text: unknown) => own.add(text).shown,
    addCommand: (shown: object) => {
      const inner = SHOWN.get(shown) ?? new Command();
      inner.outer = own;
      own.inner.push(inner);
      return own.shown;
    },
    action: (does: Method) => {
      own.action = does;
      return own.shown;
    },
    parse: () => {
      own.begin();
      return own.shown;
    },
    parseAsync: async () => {
      await own.begin();
      return own.shown;
    },
    opts: () => own.options,
    optsWithGlobals: () => ({ ...own.outer?.options, ...own.options }),
    get args() {
      return own.words;
    },
    error: () => {
      throw new ProcessExit('the script says how it is called');
    },
  };
}

/** Of each process, the command that all its files share. */
const PROGRAMS = new WeakMap<object, object>();
const NOBODY = {};

function program(): object {
  const owner = current.owner ?? NOBODY;
  const shown = PROGRAMS.get(owner) ?? new Command().shown;
  PROGRAMS.set(owner, shown);
  return shown;
}

function made(): object {
  return new Command().shown;
}

const EXPORTED: Methods = { Command: made, createCommand: made, cac: made, Option: Declared, Argument: Declared };

/** What stands for either package; as a whole it is the program, as in older versions. */
export const COMMANDS: Methods = new Proxy(made as unknown as Methods, {
  get: (_, name) => {
    if (name === 'program') return program();
    return EXPORTED[String(name)] ?? (Reflect.get(program(), name) as unknown);
  },
});
