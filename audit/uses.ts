import type { Parameter } from './parameter.js';
import { part, parts, type SyntaxNode, visit } from './syntax.js';

/** What a file compares with a secret of its environment is this. */
export const SECRET = 'secret';
/** What holds one, by the name of a variable or of the environment. */
export const IS_SECRET: RegExp = /secret$|api_?key$/i;

/** The name of what a node declares, or is; empty where it has none. */
export function nameOf(node: SyntaxNode | null): string {
  if (node === null) return '';
  if (typeof node.name === 'string') return node.name;
  if (typeof node.value === 'string') return node.value;
  return nameOf(part(node, 'id'));
}

/** The property that an expression reads: `paid` of `order.paid`; `null` for what reads none. */
export function lastIn(node: SyntaxNode | null): string | null {
  if (node === null) return null;
  if (node.type.startsWith('TS')) return lastIn(part(node, 'expression'));
  const isRead = /^(?:Optional)?MemberExpression$/.test(node.type) && node.computed !== true;
  return isRead ? nameOf(part(node, 'property')) : null;
}

/** The text that an expression is; `null` for every other one. */
export function textIn(node: SyntaxNode | null): string | null {
  return node?.type === 'StringLiteral' && typeof node.value === 'string' ? node.value : null;
}

/** Names from the outermost on: `job`, `data`, `id` of `job.data.id`; empty for what is no such chain. */
function chainOf(node: SyntaxNode | null): readonly string[] {
  if (node === null) return [];
  if (node.type === 'Identifier') return [nameOf(node)];
  if (node.type === 'ThisExpression') return ['this'];
  if (node.type.startsWith('TS')) return chainOf(part(node, 'expression'));
  if (!node.type.endsWith('MemberExpression') || isComputed(node)) return [];
  const [owner, name] = [chainOf(part(node, 'object')), nameOf(part(node, 'property'))];
  return owner.length === 0 || name === '' ? [] : [...owner, name];
}

/** Whether the name of a property is not written: `object[name]`, but not `object['name']`. */
function isComputed(node: SyntaxNode): boolean {
  return node.computed === true && part(node, 'property')?.type !== 'StringLiteral';
}

/** Whether a function calls what has this name. */
export function calls(body: SyntaxNode, name: string): boolean {
  let found = false;
  visit(body, (node) => {
    if (!node.type.endsWith('CallExpression')) return;
    const [first, second, ...more] = chainOf(part(node, 'callee'));
    // `scoring.apply(board, match)` is a method of its own.
    const isByMethod = (second === 'call' || second === 'apply') && more.length === 0 && tellsThis(node);
    found ||= first === name && (second === undefined || isByMethod);
  });
  return found;
}

/** Whether a call tells a function what `this` is, or that there is none. */
function tellsThis(node: SyntaxNode): boolean {
  const [first] = parts(node, 'arguments');
  if (first === undefined || first.type === 'ThisExpression' || first.type === 'NullLiteral') return true;
  return /^(?:undefined|self|that|this\w*|ctx|context|target|instance|owner|scope|receiver)$/.test(nameOf(first));
}

const IS_ERROR_NAME = /^_?e(?:rr\w*|x)?\d*$/;

/** Whether a function calls what has this name with an error first, or with nothing in its place, or hands it on to be called so. */
export function callsBack(body: SyntaxNode | null, name: string): boolean {
  let found = false;
  if (body === null || name === 'next') return found;
  const isCallback = /^(?:cb|callback|done)$/i.test(name);
  visit(body, (node) => {
    if (!node.type.endsWith('CallExpression')) return;
    const [callee = '', ...path] = chainOf(part(node, 'callee'));
    const given = parts(node, 'arguments');
    if (callee === name && path.length === 0) found ||= given[0] !== undefined && isErrorFirst(given[0]);
    else found ||= isCallback && path.length > 0 && given.some((it) => nameOf(it) === name && it.type === 'Identifier');
  });
  return found;
}

function isErrorFirst(node: SyntaxNode): boolean {
  if (node.type === 'NullLiteral') return true;
  const either = [part(node, 'left') ?? part(node, 'consequent'), part(node, 'right') ?? part(node, 'alternate')];
  if (/^(?:Logical|Conditional)Expression$/.test(node.type))
    return either.some((it) => it !== null && isErrorFirst(it));
  if (node.type === 'NewExpression') return /Error$/.test(nameOf(part(node, 'callee')));
  return node.type === 'Identifier' && (nameOf(node) === 'undefined' || IS_ERROR_NAME.test(nameOf(node)));
}

const MAKES_CLIENT = /^(?:\w*Redis|Valkey|createClient|createCluster|\w*Client)$/;

/** Whether a function makes a client of what has this name: `new Redis(options.redis)` for `options`, `redis`. */
export function opens(body: SyntaxNode | null, ...path: readonly string[]): boolean {
  let found = false;
  if (body === null) return found;
  const isMeant = (node: SyntaxNode | null): boolean => {
    const chain = chainOf(node);
    return chain.length >= path.length && chain.slice(-path.length).join('.') === path.join('.');
  };
  visit(body, (node) => {
    if (node.type !== 'NewExpression' && !node.type.endsWith('CallExpression')) return;
    if (!MAKES_CLIENT.test(chainOf(part(node, 'callee')).at(-1) ?? '')) return;
    const [first] = parts(node, 'arguments');
    if (first === undefined) return;
    const spread = parts(first, 'properties').filter(({ type }) => type === 'SpreadElement');
    found ||= isMeant(first) || spread.some((it) => isMeant(part(it, 'argument')));
  });
  return found;
}

/**
 * Whether a function makes a date of what has this name, or of a property of it, or subtracts it from the time: `new Date(planned)`,
 * `Date.now() - job.planned`.
 */
export function isTime(body: SyntaxNode | null, ...path: readonly string[]): boolean {
  let found = false;
  if (body === null || path.includes('')) return found;
  const isMeant = (node: SyntaxNode | null | undefined): boolean => chainOf(node ?? null).join('.') === path.join('.');
  visit(body, (node) => {
    const isDate = node.type === 'NewExpression' && nameOf(part(node, 'callee')) === 'Date';
    found ||= isDate && parts(node, 'arguments').length === 1 && isMeant(parts(node, 'arguments')[0]);
    if (node.type !== 'BinaryExpression' || node.operator !== '-') return;
    found ||=
      isMeant(part(node, 'right')) && chainOf(part(part(node, 'left') ?? node, 'callee')).join('.') === 'Date.now';
  });
  return found;
}

/** What is asked of any text, which says nothing of what it is. */
function isOfTexts(name: string, isFunction: boolean): boolean {
  return name === 'length' || (isFunction && name in String.prototype);
}

/** A tree of the properties that are read. */
interface Read {
  isFunction: boolean;
  /** What it has to be for the function to go on. */
  wanted?: string;
  readonly inner: Map<string, Read>;
}

/** The properties of what has this name that a function reads; whether it can do without them is not known. */
export function fieldsRead(name: string, body: SyntaxNode | null): Parameter[] {
  const found: Read = { isFunction: false, inner: new Map() };
  if (name === '' || body === null) return [];
  const seen = new Set<SyntaxNode | null>();
  const copies = new Map<string, SyntaxNode>();
  visit(body, (node) => {
    const isCall = node.type.endsWith('CallExpression');
    if (isCall) seen.add(part(node, 'callee'));
    if (node.type === 'AssignmentExpression' && node.operator === '=') seen.add(part(node, 'left'));
    const [first, ...path] = chainOf(isCall ? part(node, 'callee') : node);
    if (first === name && path.length > 0 && !seen.has(node) && (isCall || node.type.endsWith('MemberExpression')))
      note(found, path, isCall);
    if (node.type === 'BinaryExpression') noteCompared(found, node, name, copies);
    const pattern = part(node, 'id');
    const init = node.type === 'VariableDeclarator' ? part(node, 'init') : null;
    const [source, ...from] = chainOf(init);
    if (source === name && pattern?.type === 'ObjectPattern') notePattern(found, from, pattern);
    if (init !== null && pattern?.type === 'Identifier') copies.set(nameOf(pattern), init);
  });
  return parametersOf(found);
}

/**
 * Notes what a property has to be: `req.method !== 'POST'`, or a header that has to have a secret of the environment.
 *
 * @param copies - Variables, by what they were set to.
 */
function noteCompared(found: Read, node: SyntaxNode, name: string, copies: ReadonlyMap<string, SyntaxNode>): void {
  const left = part(node, 'left');
  const compared = copies.get(left?.type === 'Identifier' ? nameOf(left) : '') ?? left;
  const isCall = compared?.type.endsWith('CallExpression') === true;
  const [first, ...path] = chainOf(isCall ? part(compared, 'callee') : compared);
  if (first !== name || path.length === 0) return;
  const isNegated = node.operator === '!==' || node.operator === '!=';
  const wanted = isNegated || path.at(-1) === 'method' ? textOf(part(node, 'right')) : '';
  if (wanted !== '') note(found, path, isCall).wanted ??= wanted;
}

/** A text that is written, in which secrets of the environment may be. */
function textOf(node: SyntaxNode | null): string {
  if (node?.type === 'StringLiteral') return nameOf(node);
  if (node === null) return '';
  const chain = chainOf(node);
  if (chain.slice(0, 2).join('.') === 'process.env' || (chain.length === 1 && IS_SECRET.test(chain[0] ?? '')))
    return SECRET;
  const [inner, ...more] = parts(node, 'expressions');
  if (node.type !== 'TemplateLiteral' || inner === undefined || more.length > 0) return '';
  const [before = '', after = ''] = parts(node, 'quasis').map(({ value }) => (value as { cooked?: string }).cooked);
  const secret = textOf(inner);
  return secret === '' ? '' : `${before}${secret}${after}`;
}

/** @returns What was read last. */
function note(found: Read, path: readonly string[], isCall: boolean): Read {
  let at = found;
  for (const [i, name] of path.entries()) {
    const isFunction = isCall && i === path.length - 1;
    if (isOfTexts(name, isFunction)) return at;
    const next = at.inner.get(name) ?? { isFunction: false, inner: new Map() };
    next.isFunction ||= isFunction;
    at.inner.set(name, next);
    at = next;
  }
  return at;
}

function notePattern(found: Read, from: readonly string[], pattern: SyntaxNode): void {
  for (const it of parts(pattern, 'properties')) {
    const path = [...from, nameOf(part(it, 'key'))];
    const value = part(it, 'value');
    if (value?.type === 'ObjectPattern') notePattern(found, path, value);
    else if (it.type === 'ObjectProperty') note(found, path, false);
  }
}

function parametersOf({ inner }: Read): Parameter[] {
  return [...inner].map(([name, read]) => ({
    name,
    type: read.wanted === undefined ? '' : `'${read.wanted}'`,
    isOptional: true,
    isFunction: read.isFunction,
    isGuessed: true,
    fields: parametersOf(read),
  }));
}

/** Whether a function throws or returns where what has one of these names equals one before it in the list: nothing is moved from `a` to `a`. */
export function refusesAsSame(body: SyntaxNode | null, names: readonly string[], name: string): boolean {
  let found = false;
  const before = names.slice(0, names.indexOf(name));
  if (body === null || before.length === 0) return found;
  visit(body, (node) => {
    if (node.type !== 'IfStatement' || !leaves(part(node, 'consequent'))) return;
    const test = part(node, 'test');
    if (test?.type !== 'BinaryExpression' || !/^===?$/.test(String(test.operator))) return;
    const [left = '', right = ''] = [part(test, 'left'), part(test, 'right')].map((it) => chainOf(it).join('.'));
    found ||= (right === name && before.includes(left)) || (left === name && before.includes(right));
  });
  return found;
}

/** Whether a statement, or the first of a block, leaves its function. */
function leaves(node: SyntaxNode | null): boolean {
  const first = node?.type === 'BlockStatement' ? (parts(node, 'body')[0] ?? null) : node;
  return first?.type === 'ThrowStatement' || first?.type === 'ReturnStatement';
}
