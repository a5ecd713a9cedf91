import { asPattern } from '../text/pattern.js';
import { leaves } from './conditions.js';
import { formFor, periodFor } from './forms.js';
import { part, parts, type SyntaxNode, treeOf, visit } from './syntax.js';
import { keysIn } from './tables.js';
import { lastIn, nameOf, textIn } from './uses.js';

/*
 * What a file requires of values that it is given: of which type a property has to be, that it has to be there, or not, or that it has to
 * be a certain text. Nothing else would be done.
 */

/**
 * What files check of a value: its type, that it is this text, or one of these, that it, or each in it, matches an expression as a whole,
 * or that it is not there.
 */
export type CheckedType =
  | 'string'
  | 'number'
  | 'list'
  | 'absent'
  | { readonly text: string }
  | { readonly among: readonly string[] }
  | { readonly pattern: string }
  | { readonly each: string };

const CHECKED =
  /\b(?:typeof\s+([\w.?!'"[\]-]+)\s*[!=]==?\s*['"](string|number)['"]|(Number\.is\w+|Array\.isArray)\(\s*([\w.?!'"[\]-]+)\s*\))/g;

/** The names of properties that have a state, as `status`. */
const IS_STATE = /(?:^|_|[a-z](?=[A-Z]))(?:status|state|phase|stage|type|kind)$/i;

/** What conditions say of properties, by name. */
export interface Required {
  readonly there: Set<string>;
  readonly absent: Set<string>;
  readonly states: Map<string, Set<string>>;
  /** Keys of tables in which values are looked up. */
  readonly keys: Map<string, readonly string[]>;
  readonly patterns: Map<string, string>;
  /** What each in a list matches. */
  readonly lists: Map<string, string>;
  readonly equal: Set<string>;
  /** What is given to functions, as they name it, and has to be another text than something else: `if (from === input.toId) throw …`. */
  readonly unequal: Set<string>;
  /** Conditions at which loops end that have no other end. */
  readonly exits: Set<SyntaxNode>;
  /** Expressions that are named: `const SKU = /^[A-Z]+$/`. */
  readonly named: Map<string, string>;
  /** What dates are made of, by their names: `const slot = new Date(body.at)`. */
  readonly dates: Map<string, SyntaxNode>;
}

/** The properties and parameters that files require to be a text, a number or a list, there, absent or in a state, by name. */
export function requiredTypes(
  texts: readonly string[],
  required: Required = requiredIn(texts),
): Map<string, CheckedType> {
  const found = new Map<string, CheckedType>();
  for (const name of required.equal) found.set(name, 'string');
  for (const [name, among] of required.keys) found.set(name, { among });
  for (const [name, pattern] of required.patterns) found.set(name, { pattern });
  for (const name of required.absent) if (!required.there.has(name)) found.set(name, 'absent');
  for (const [name, [state, ...others]] of required.states)
    if (state !== undefined && others.length === 0) found.set(name, { text: state });
  for (const text of texts)
    for (const [, typed, type, test = '', tested] of text.matchAll(CHECKED)) {
      const kind = (type as CheckedType | undefined) ?? (test.startsWith('Array') ? 'list' : 'number');
      const name = nameIn(typed ?? tested ?? '', text);
      if (name !== null) found.set(name, kind);
    }
  for (const [name, each] of required.lists) found.set(name, { each });
  for (const [, name = '', header = ''] of texts.flatMap((it) => [...it.matchAll(HEADER)])) {
    const pattern = required.patterns.get(name);
    if (pattern !== undefined) found.set(header.toLowerCase(), { pattern });
  }
  return found;
}

/** A header of a request that has a name: `const id = req.get('Idempotency-Key')`. */
const HEADER = /\bconst\s+(\w+)\s*=\s*[\w.]+\.(?:get|header)\(\s*['"]([\w-]+)['"]/g;

/** What the conditions of files say. */
export function requiredIn(texts: readonly string[]): Required {
  const required: Required = {
    there: new Set(),
    absent: new Set(),
    states: new Map(),
    keys: new Map(),
    patterns: new Map(),
    lists: new Map(),
    equal: new Set(),
    unequal: new Set(),
    exits: new Set(),
    named: new Map(),
    dates: new Map(),
  };
  const trees = texts.map(treeOf);
  for (const tree of trees) visit(tree, (node) => noteNamed(node, required));
  for (const tree of trees) {
    visit(tree, (node) => look(node, required));
    visit(tree, (node) => noteDate(node, required));
    for (const [name, keys] of keysIn(tree)) required.keys.set(name, keys);
  }
  return required;
}

/** The arguments of a script: `const [tenant, month] = process.argv.slice(2)`. */
const ARGUMENTS = /\[([\w\s,=.]+)\]\s*=\s*process\.argv\.slice\(\s*2\s*\)/;

/** What a script is given, by the names that it has for that; `null` for one that names none, or nothing of a form. */
export function argumentsIn(text: string): readonly string[] | null {
  const [, list] = ARGUMENTS.exec(text) ?? [];
  if (list === undefined) return null;
  const { patterns } = requiredIn([text]);
  const names = list.split(',').map((it) => it.split('=', 1)[0]?.trim() ?? '');
  // `if (dashes !== '--') process.exit(64)`.
  const wordFor = (name: string): string | undefined =>
    new RegExp(String.raw`\b${asPattern(name)}\s*!==?\s*['"]([^'"\n]+)['"]`).exec(text)?.[1];
  const known = (name: string): string | undefined => periodFor(name, 'a') ?? wordFor(name);
  if (!names.some((it) => patterns.has(it) || known(it) !== undefined)) return null;
  return names.map((it) => known(it) ?? formFor(patterns.get(it) ?? '.*')('a'));
}

function noteNamed(node: SyntaxNode, { named, dates }: Required): void {
  if (node.type !== 'VariableDeclarator') return;
  const [name, init] = [nameOf(part(node, 'id')), part(node, 'init')];
  const [pattern, of] = [patternIn(init), dateOf(init)];
  if (name !== '' && pattern !== null) named.set(name, pattern);
  if (name !== '' && of !== undefined) dates.set(name, of);
}

/** What a date is made of: `new Date(body.at)`, and `Date.parse(body.at)`. */
function dateOf(node: SyntaxNode | null): SyntaxNode | undefined {
  const callee = node === null ? null : part(node, 'callee');
  const isMade = node?.type === 'NewExpression' && nameOf(callee) === 'Date';
  const isRead = callee !== null && lastIn(callee) === 'parse' && nameOf(part(callee, 'object')) === 'Date';
  const [of, ...others] = node !== null && (isMade || isRead) ? parts(node, 'arguments') : [];
  return others.length === 0 ? of : undefined;
}

/** A day, as texts of ISO 8601 begin. */
const DAY = String.raw`\d{4}-\d\d-\d\d`;

/** `Number.isNaN(slot.getTime())`: the date is one. */
function noteDate(node: SyntaxNode, { dates, patterns }: Required): void {
  const callee = part(node, 'callee');
  const [tested = null] = parts(node, 'arguments');
  if (callee === null || (lastIn(callee) ?? nameOf(callee)) !== 'isNaN') return;
  const asked = tested?.type === 'UnaryExpression' ? part(tested, 'argument') : tested;
  const method = asked === null ? null : part(asked, 'callee');
  const date = method !== null && /^(?:getTime|valueOf)$/.test(lastIn(method) ?? '') ? part(method, 'object') : asked;
  const of = dateOf(date) ?? dates.get(nameOf(date));
  const name = of === undefined ? '' : (lastIn(of) ?? nameOf(of));
  if (name !== '' && !patterns.has(name)) patterns.set(name, DAY);
}

/** An expression for a whole text, without its anchors. */
function patternIn(node: SyntaxNode | null): string | null {
  if (node?.type !== 'RegExpLiteral' || typeof node.pattern !== 'string') return null;
  return /^\^(.+)\$$/.exec(node.pattern)?.[1] ?? null;
}

/** `/^[A-Z]+$/.test(order.sku)`, and the same of an expression that has a name. */
function notePattern(node: SyntaxNode, { patterns, named }: Required): void {
  const callee = part(node, 'callee');
  const [tested] = parts(node, 'arguments');
  if (callee === null || lastIn(callee) !== 'test' || tested === undefined) return;
  const of = part(callee, 'object');
  const pattern = patternIn(of) ?? named.get(nameOf(of));
  const value = tested.type === 'LogicalExpression' ? part(tested, 'left') : tested;
  const name = lastIn(value) ?? nameOf(value);
  if (pattern !== undefined && name !== '') patterns.set(name, pattern);
}

/** `codes.every((it) => /^[A-Z]+$/.test(it))`. */
function noteEach(node: SyntaxNode, { lists, named }: Required): void {
  const callee = part(node, 'callee');
  const of = part(callee ?? node, 'object');
  const name = lastIn(of) ?? nameOf(of);
  if (lastIn(callee) !== 'every' || name === '') return;
  visit(node, (it) => {
    const tests = part(it, 'callee');
    const by = lastIn(tests) === 'test' ? part(tests ?? it, 'object') : null;
    const pattern = patternIn(by) ?? named.get(nameOf(by));
    if (by !== null && pattern !== undefined) lists.set(name, pattern);
  });
}

function look(node: SyntaxNode, required: Required): void {
  const test = part(node, 'test');
  noteNext(node, test, required.absent);
  if (isEndless(node)) visit(node, (it) => void (isExit(it) && required.exits.add(it)));
  const again = node.type === 'DoWhileStatement' ? lastIn(test) : null;
  if (again !== null && SAYS_MORE.test(again)) required.absent.add(again);
  if (required.exits.has(node)) noteThere(test, required.absent);
  else if (node.type === 'IfStatement' && test !== null) {
    if (leaves(part(node, 'consequent'))) needs(test, false, required);
    else noteThere(test, required.there);
  }
  if (node.type === 'SwitchStatement') {
    const [first] = parts(node, 'cases').filter((it) => part(it, 'test') !== null && !leavesAtOnce(it));
    const state = first === undefined ? null : textIn(part(first, 'test'));
    const of = part(node, 'discriminant');
    const name = of?.type === 'Identifier' ? nameOf(of) : lastIn(of);
    if (name !== null && state !== null) required.states.set(name, new Set([state]));
  }
}

/** What says that there is a next page, by its name. */
const SAYS_MORE = /^(?:has|is)?_?(?:[mM]ore|[nN]ext)(?:[A-Z_]|$)/;
/** What leads to the next page, by its name. */
const IS_NEXT = /next|cursor|continuation|after/i;

/** The end of `while (url) { … url = page.next; }`: there is no next page. */
function noteNext(node: SyntaxNode, test: SyntaxNode | null, absent: Set<string>): void {
  if (!/^(?:Do)?WhileStatement$/.test(node.type)) return;
  const variable = nameOf(test?.type === 'BinaryExpression' ? part(test, 'left') : test);
  visit(node, (it) => {
    const value = part(it, 'right');
    const name = value === null ? null : lastIn(value.type === 'LogicalExpression' ? part(value, 'left') : value);
    if (it.type !== 'AssignmentExpression' || nameOf(part(it, 'left')) !== variable || variable === '') return;
    if (name !== null && IS_NEXT.test(name)) absent.add(name);
  });
}

/** `for (;;)` and `while (true)`. */
function isEndless(node: SyntaxNode): boolean {
  const test = part(node, 'test');
  return node.type === 'ForStatement' ? test === null : node.type === 'WhileStatement' && test?.value === true;
}

/** `if (!page.hasMore) break;`, and `if (!page.hasMore) return count;`: what else makes it return may be in its way. */
function isExit(node: SyntaxNode): boolean {
  const then = node.type === 'IfStatement' ? part(node, 'consequent') : null;
  const type = (then?.type === 'BlockStatement' ? parts(then, 'body').at(-1) : then)?.type;
  if (type === 'BreakStatement') return true;
  const test = part(node, 'test');
  const asked = test?.type === 'UnaryExpression' ? lastIn(part(test, 'argument')) : null;
  return type === 'ReturnStatement' && asked !== null && SAYS_MORE.test(asked);
}

/** What is asked for by `if (!row.paid)` is there in what follows, or not: it is not known to be absent. A loop ends by that. */
function noteThere(test: SyntaxNode | null, names: Set<string>): void {
  const name = test?.type === 'UnaryExpression' && test.operator === '!' ? lastIn(part(test, 'argument')) : null;
  if (name !== null) names.add(name);
}

function leavesAtOnce(one: SyntaxNode): boolean {
  const [first] = parts(one, 'consequent');
  return first !== undefined && leaves(first) && part(first, 'argument') === null;
}

/** Notes what makes a condition true, or false. */
function needs(node: SyntaxNode, isTrue: boolean, required: Required): void {
  const { type, operator } = node;
  const [left, right] = [part(node, 'left'), part(node, 'right')];
  if (type === 'UnaryExpression' && operator === '!') {
    const argument = part(node, 'argument');
    if (argument !== null) needs(argument, !isTrue, required);
  } else if (type === 'LogicalExpression' && left !== null && right !== null) {
    // One part is enough for `a && b` to be false, and for `a || b` to be true.
    needs(left, isTrue, required);
    if ((operator === '&&') === isTrue) needs(right, isTrue, required);
  } else if (type === 'BinaryExpression' && left !== null && right !== null) {
    // `if (open.length > 0) return`.
    if (!isTrue && /^(?:>|!==?)$/.test(String(operator)) && isLength(left) && right.value === 0)
      required.absent.add('length');
    const isEqual = /^===?$/.test(String(operator));
    const [name, state] = [lastIn(left), textIn(right)];
    const other = pathOf(right);
    if (isEqual === isTrue && /^[!=]==?$/.test(String(operator))) noteEqual(left, right, required);
    else if (isEqual && pathOf(left) !== null && other !== null) required.unequal.add(other);
    if (name === null || state === null || isEqual !== isTrue || !/^[!=]==?$/.test(String(operator))) return;
    if (IS_STATE.test(name)) required.states.set(name, (required.states.get(name) ?? new Set()).add(state));
  } else if (type === 'CallExpression' && isTrue) {
    notePattern(node, required);
    noteEach(node, required);
  } else {
    const name = lastIn(node);
    if (name !== null) (isTrue ? required.there : required.absent).add(name);
  }
}

/** The names of what tells one thing from another. */
const IS_NAME = /(?:Id|_id|Code|_code|Key|Name|Slug|Email|Currency|Region)$/;

/** `if (show.domeId !== domeId) throw …`: both have to be the same text. */
function noteEqual(left: SyntaxNode, right: SyntaxNode, { equal }: Required): void {
  const names = [left, right].map((it) => lastIn(it) ?? (it.type === 'Identifier' ? nameOf(it) : ''));
  if (names.every((it) => it !== '')) for (const it of names) if (IS_NAME.test(it)) equal.add(it);
}

/** `input.toId`, or `to`; `null` for what is neither a name nor a part of what has one. */
function pathOf(node: SyntaxNode | null): string | null {
  if (node === null) return null;
  if (node.type === 'Identifier') return nameOf(node);
  const [name, of] = [lastIn(node), pathOf(part(node, 'object'))];
  return name === null || of === null ? null : `${of}.${name}`;
}

function isLength(node: SyntaxNode): boolean {
  return lastIn(node) === 'length';
}

function nameIn(expression: string, text: string): string | null {
  const [, name = null] = /(?:\.|\[['"])([\w-]+)(?:['"]\])?$/.exec(expression) ?? [];
  if (name !== null || !/^\w+$/.test(expression)) return name;
  const [, read = ''] =
    new RegExp(String.raw`\b(?:const|let|var)\s+${expression}\s*=\s*([\w.?!'"[\]-]+)\s*;`).exec(text) ?? [];
  return read === '' || read === expression ? expression : nameIn(read, '');
}
