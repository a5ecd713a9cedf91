/*
 * As much of zod as the grammar of a schedule speaks, for pages: zod's own small form is a twentieth of the playground. The
 * build puts this file in the place of scenarios/zod.ts; a test holds it to zod, issue by issue.
 */

/** What is wrong in one place. */
interface Issue {
  readonly code: 'invalid_type' | 'invalid_union' | 'unrecognized_keys';
  readonly path: readonly string[];
  readonly message: string;
  readonly keys?: readonly string[];
}

type Found = Omit<Issue, 'path' | 'message'> & { readonly input: unknown };
type Options = { readonly error?: string | ((found: Found) => string) };
/** Looks at a value; returns what is kept of it, and adds what is wrong with it to the list. */
type Read = (value: unknown, issues: Issue[]) => unknown;
type Check = (value: unknown) => Issue | null;
type Shape = Readonly<Record<string, Rule>>;

/** One rule of a grammar. */
class Rule {
  readonly read: Read;
  /** As zod calls what a rule is made of. */
  readonly def: { readonly values?: readonly unknown[] };
  readonly shape: Shape;
  readonly isOptional: boolean;

  constructor(read: Read, { values = [], shape = {}, isOptional = false }: About = {}) {
    this.read = read;
    this.def = { values };
    this.shape = shape;
    this.isOptional = isOptional;
  }

  /** The rule with checks, which see only what is right so far. */
  check(...checks: readonly Check[]): Rule {
    return new Rule((value, issues) => {
      const before = issues.length;
      const kept = this.read(value, issues);
      const wrong = issues.length > before ? null : firstOf(checks, value);
      if (wrong !== null) issues.push(wrong);
      return kept;
    });
  }

  register(): Rule {
    return this;
  }

  safeParse(value: unknown): object {
    const issues: Issue[] = [];
    const data = this.read(value, issues);
    return issues.length === 0 ? { success: true, data } : { success: false, error: { issues } };
  }
}

type About = { readonly values?: readonly unknown[]; readonly shape?: Shape; readonly isOptional?: boolean };

function firstOf(checks: readonly Check[], value: unknown): Issue | null {
  for (const check of checks) {
    const wrong = check(value);
    if (wrong !== null) return wrong;
  }
  return null;
}

function issue({ error }: Options, found: Found, ...path: readonly string[]): Issue {
  return { ...found, path, message: typeof error === 'function' ? error(found) : (error ?? 'not readable') };
}

function wrongType(options: Options, input: unknown): Issue {
  return issue(options, { code: 'invalid_type', input });
}

/** A rule for single values. */
function value(isRight: (value: unknown) => boolean, options: Options = {}, about: About = {}): Rule {
  return new Rule((it, issues) => {
    if (!isRight(it)) issues.push(wrongType(options, it));
    return it;
  }, about);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Adds the issues of a part under its key. */
function part(rule: Rule, value: unknown, issues: Issue[], key: string): unknown {
  const inner: Issue[] = [];
  const kept = rule.read(value, inner);
  for (const it of inner) issues.push({ ...it, path: [key, ...it.path] });
  return kept;
}

const int = (options: Options): Rule => value(Number.isSafeInteger, options);
const string = (options: Options): Rule => value((it) => typeof it === 'string', options);
const boolean = (options: Options): Rule => value((it) => typeof it === 'boolean', options);
const nothing = (): Rule => value((it) => it === null);
const unknown = (): Rule => value(() => true);
const words = (values: readonly unknown[], options: Options): Rule =>
  value((it) => values.includes(it), options, { values });
const literal = (of: unknown, options: Options = {}): Rule => words(Array.isArray(of) ? of : [of], options);
const exactOptional = ({ read, def, shape }: Rule): Rule => new Rule(read, { ...def, shape, isOptional: true });
const nonoptional = ({ read }: Rule, options: Options): Rule =>
  new Rule(read).check((it) => (it === undefined ? wrongType(options, it) : null));

const check =
  (isRight: (value: never) => boolean, options: Options): Check =>
  (it) =>
    isRight(it as never) ? null : wrongType(options, it);

const gte = (low: number, options: Options): Check => check((it: number) => it >= low, options);
const lte = (high: number, options: Options): Check => check((it: number) => it <= high, options);
const regex = (form: RegExp, options: Options): Check => check((it: string) => form.test(it), options);
const minLength = (least: number, options: Options): Check =>
  check((it: ArrayLike<unknown>) => it.length >= least, options);

function array(element: Rule, options: Options): Rule {
  return new Rule((it, issues) => {
    if (Array.isArray(it)) return it.map((each, i) => part(element, each, issues, String(i)));
    issues.push(wrongType(options, it));
    return it;
  });
}

/** The first rule that the value is right for. */
function union(rules: readonly Rule[], options: Options): Rule {
  return new Rule((it, issues) => {
    for (const { read } of rules) {
      const inner: Issue[] = [];
      const kept = read(it, inner);
      if (inner.length === 0) return kept;
    }
    issues.push(issue(options, { code: 'invalid_union', input: it }));
    return it;
  });
}

function strictObject(shape: Shape, options: Options): Rule {
  const read: Read = (it, issues) => {
    if (!isObject(it)) {
      issues.push(wrongType(options, it));
      return it;
    }
    const kept: Record<string, unknown> = {};
    for (const [key, rule] of Object.entries(shape)) {
      const isThere = key in it;
      if (isThere || !rule.isOptional) kept[key] = part(rule, it[key], issues, key);
    }
    const keys = Object.keys(it).filter((key) => !Object.hasOwn(shape, key));
    if (keys.length > 0) issues.push(issue(options, { code: 'unrecognized_keys', input: it, keys }));
    return kept;
  };
  return new Rule(read, { shape });
}

function discriminatedUnion(tag: string, rules: readonly Rule[], options: Options): Rule {
  return new Rule((it, issues) => {
    if (!isObject(it)) {
      issues.push(wrongType(options, it));
      return it;
    }
    const rule = rules.find(({ shape }) => shape[tag]?.def.values?.includes(it[tag]));
    if (rule !== undefined) return rule.read(it, issues);
    issues.push(issue(options, { code: 'invalid_union', input: it }, tag));
    return it;
  });
}

/** Pages make no JSON Schema; names of parts are for it. */
const none = (): null => null;

export {
  array,
  boolean,
  discriminatedUnion,
  exactOptional,
  gte,
  int,
  literal,
  lte,
  minLength,
  none as registry,
  none as toJSONSchema,
  nonoptional,
  nothing as null,
  regex,
  strictObject,
  string,
  union,
  unknown,
  words as enum,
};
