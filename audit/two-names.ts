import type { Defect } from './defect.js';
import { isNode, part, parts, type SyntaxNode, treeOf, visit } from './syntax.js';

/** A lock that a function takes by a name, and a record that it looks up by the same name under it. */
interface Lookup {
  /** The function that locks, with what the name is put into: `withLock order:*`. */
  readonly lock: string;
  readonly table: string;
  readonly column: string;
  /** The expression of the name, as it is written. */
  readonly by: string;
  readonly line: number;
}

const LOCKS = /lock|acquire|mutex|exclusive|lease|^using$/i;
const UNLOCKS = /unlock|release/i;
const FUNCTION = /^(?:Function(?:Declaration|Expression)|ArrowFunctionExpression|(?:Class|Object)Method)$/;
const SELECT = /\bfrom\s+"?(\w+)"?\s+where\s+"?(\w+)"?\s*=\s*(?:\$1|\?)\s*(?:for\s+update\s*)?(?:limit\s+1\s*)?;?\s*$/i;
const FINDS = /^find(?:Unique|First|One)(?:OrThrow)?$/;

/**
 * What is wrong where two functions take one lock for records of one table, each by another name of the record: its own id, and that
 * which another system has for it. They have different keys for one record.
 */
export function twoNames(texts: readonly string[]): Defect | null {
  const found = texts.flatMap(lookupsIn);
  for (const one of found)
    for (const two of found) {
      const isSame = one.lock === two.lock && one.table === two.table;
      if (isSame && one.column !== two.column && one.line < two.line) return ofTwoNames(one, two);
    }
  return null;
}

function lookupsIn(text: string): Lookup[] {
  const found: Lookup[] = [];
  const said = (node: SyntaxNode): string => text.slice(node.start, node.end);
  const tree = treeOf(text);
  const takers = takersIn(tree, said);
  visit(tree, (node) => {
    if (!FUNCTION.test(node.type)) return;
    const locks: { readonly lock: string; readonly by: string }[] = [];
    const looks: Omit<Lookup, 'lock'>[] = [];
    visitOwn(node, (it) => {
      if (it.type !== 'CallExpression') return;
      const lock = lockIn(it, said, takers);
      if (lock !== null) locks.push(lock);
      const look = lookIn(it, said);
      if (look !== null) looks.push(look);
    });
    for (const { lock, by } of locks) for (const look of looks) if (look.by === by) found.push({ ...look, lock });
  });
  return found;
}

/** All of a function, with the functions that are written in it where they are handed to something. */
function visitOwn(node: SyntaxNode, look: (node: SyntaxNode) => void): void {
  for (const value of Object.values(node).flat())
    if (isNode(value) && value.type !== 'FunctionDeclaration') visit(value, look);
}

function calleeOf(node: SyntaxNode): string {
  const callee = part(node, 'callee');
  const property = callee === null ? null : (part(callee, 'property') ?? callee);
  return typeof property?.name === 'string' ? property.name : '';
}

/** A key is set where there is none. */
const SETS_NEW = /\bset\([^;]*\bnx\b/i;

/** The functions of a file that take its lock, by what they do. */
function takersIn(tree: SyntaxNode, said: (node: SyntaxNode) => string): ReadonlySet<string> {
  const takers = new Set<string>();
  visit(tree, (node) => {
    const name = part(node, 'id')?.name;
    if (node.type === 'FunctionDeclaration' && typeof name === 'string' && SETS_NEW.test(said(node))) takers.add(name);
  });
  return takers;
}

/** `withLock(id, …)`, and the same of a template with one name in it. */
function lockIn(
  node: SyntaxNode,
  said: (node: SyntaxNode) => string,
  takers: ReadonlySet<string>,
): { lock: string; by: string } | null {
  const name = calleeOf(node);
  const [first] = parts(node, 'arguments');
  if (!(LOCKS.test(name) || takers.has(name)) || UNLOCKS.test(name) || first === undefined) return null;
  if (first.type !== 'TemplateLiteral') return { lock: name, by: said(first) };
  const [by, ...others] = parts(first, 'expressions');
  if (by === undefined || others.length > 0) return null;
  return { lock: `${name} ${said(first).replace(said(by), '')}`, by: said(by) };
}

/** `query('SELECT … WHERE id = $1', [id])`, and `model.findUnique({ where: { id } })`. */
function lookIn(node: SyntaxNode, said: (node: SyntaxNode) => string): Omit<Lookup, 'lock'> | null {
  const [first, second] = parts(node, 'arguments');
  if (first === undefined) return null;
  const { line } = node.loc.start;
  const [, table, column] =
    SELECT.exec(
      said(first)
        .replaceAll(/^['"`]|['"`]$/g, '')
        .replaceAll(/\s+/g, ' '),
    ) ?? [];
  if (table !== undefined && column !== undefined && second?.type === 'ArrayExpression') {
    const [by] = parts(second, 'elements');
    return by === undefined ? null : { table, column, by: said(by), line };
  }
  const callee = part(node, 'callee');
  const model = callee === null ? null : part(callee, 'object');
  if (!FINDS.test(calleeOf(node)) || model === null || first.type !== 'ObjectExpression') return null;
  const where = parts(first, 'properties').find((it) => part(it, 'key')?.name === 'where');
  const value = where === undefined ? null : part(where, 'value');
  const [condition, ...others] = value === null ? [] : parts(value, 'properties');
  const [key, by] = condition === undefined ? [] : [part(condition, 'key'), part(condition, 'value')];
  if (others.length > 0 || typeof key?.name !== 'string' || by == null) return null;
  return { table: said(model), column: key.name, by: said(by), line };
}

function ofTwoNames(one: Lookup, two: Lookup): Defect {
  return {
    id: 'two-names',
    sentence: `two functions take the lock of one record by different names: by ${one.by}, the ${one.column} of ${one.table} (line ${one.line}), and by ${two.by}, its ${two.column} (line ${two.line}): their keys differ, so that both change the same record at once, and one overwrites the other`,
    fix: `look up the record first, and name the lock after one of its columns in both, such as ${one.column}`,
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}
