import { part, parts, type SyntaxNode, visit } from './syntax.js';
import { lastIn, nameOf, textIn } from './uses.js';

/* Tables of a file, as `const JOBS = { nightly: … }`, in which it looks something up by a value that it is given. */

/** What looks in a table of each kind: an index, `in` and `hasOwn` are no methods of it. */
const LOOKS = { ObjectExpression: /^$/, ArrayExpression: /^includes$/, NewExpression: /^(?:get|has)$/ } as const;

interface Table {
  readonly keys: readonly string[];
  readonly looks: RegExp;
}

/** The tables of a file, by name. */
function tablesIn(tree: SyntaxNode): Map<string, Table> {
  const found = new Map<string, Table>();
  visit(tree, (node) => {
    const made = node.type === 'VariableDeclarator' ? bare(part(node, 'init')) : null;
    const keys = keysOf(made);
    const name = nameOf(part(node, 'id'));
    if (keys.length > 0 && name !== '') found.set(name, { keys, looks: LOOKS[made?.type as keyof typeof LOOKS] });
  });
  return found;
}

/** What values have to be one of, by the names under which they are given, so that a file finds something in its tables. */
export function keysIn(tree: SyntaxNode): Map<string, readonly string[]> {
  const tables = tablesIn(tree);
  const found = new Map<string, readonly string[]>();
  if (tables.size === 0) return found;
  const read = new Map<string, string>();
  /** What has another value where nothing is found. */
  const spared = new Set<SyntaxNode | null>();
  visit(tree, (node) => {
    if (node.type === 'VariableDeclarator') noteRead(node, read);
    if (node.type === 'LogicalExpression' && node.operator !== '&&') spared.add(bare(part(node, 'left')));
  });
  visit(tree, (node) => {
    if (spared.has(node)) return;
    const { of, by, method } = lookIn(node);
    const table = tables.get(nameOf(of));
    if (table === undefined || by === null || !table.looks.test(method)) return;
    const name = lastIn(by) ?? read.get(nameOf(by));
    if (name !== undefined) found.set(name, table.keys);
  });
  return found;
}

/** `const name = c.req.param('job')`, `const name = job.data.type`, and `const { type: name } = job.data`. */
function noteRead(node: SyntaxNode, read: Map<string, string>): void {
  const [id, init] = [part(node, 'id'), bare(part(node, 'init'))];
  for (const property of id?.type === 'ObjectPattern' && init !== null ? parts(id, 'properties') : []) {
    const [key, value] = [nameOf(part(property, 'key')), part(property, 'value')];
    if (key !== '') read.set(nameOf(value?.type === 'AssignmentPattern' ? part(value, 'left') : value), key);
  }
  const [asked, ...others] = init?.type === 'CallExpression' ? parts(init, 'arguments') : [];
  const name = others.length === 0 && typeof asked?.value === 'string' ? asked.value : lastIn(init);
  if (id?.type === 'Identifier' && name !== null && /^\w+$/.test(name)) read.set(nameOf(id), name);
}

interface Look {
  readonly of: SyntaxNode | null;
  readonly by: SyntaxNode | null;
  readonly method: string;
}

/** The table in which an expression looks, and by what: `JOBS[name]`, `JOBS.get(name)`, `name in JOBS`, `Object.hasOwn(JOBS, name)`. */
function lookIn(node: SyntaxNode): Look {
  if (/^(?:Optional)?MemberExpression$/.test(node.type) && node.computed === true)
    return { of: bare(part(node, 'object')), by: bare(part(node, 'property')), method: '' };
  if (node.type === 'BinaryExpression' && node.operator === 'in')
    return { of: bare(part(node, 'right')), by: bare(part(node, 'left')), method: '' };
  const callee = /^(?:Optional)?CallExpression$/.test(node.type) ? part(node, 'callee') : null;
  const [first = null, second = null] = parts(node, 'arguments').map(bare);
  const method = lastIn(callee);
  const of = callee === null ? null : bare(part(callee, 'object'));
  if (nameOf(of) === 'Object' && method === 'hasOwn') return { of: first, by: second, method: '' };
  return { of: method === null ? null : of, by: first, method: method ?? '' };
}

/** The keys of a table, by what it is made of, that are written there. */
function keysOf(made: SyntaxNode | null): readonly string[] {
  if (made?.type === 'ObjectExpression')
    return parts(made, 'properties').flatMap((it) => {
      const key = it.computed === true ? null : part(it, 'key');
      return key === null ? [] : nameOf(key) || [];
    });
  if (made?.type === 'ArrayExpression') return textsOf(made);
  if (made?.type !== 'NewExpression' || !/^(?:Map|Set)$/.test(nameOf(part(made, 'callee')))) return [];
  return textsOf(bare(parts(made, 'arguments')[0] ?? null));
}

/** The texts of a list, and the first ones of the pairs in it. */
function textsOf(list: SyntaxNode | null): readonly string[] {
  const all = list?.type === 'ArrayExpression' ? parts(list, 'elements') : [];
  return all.flatMap((it) => textIn(it.type === 'ArrayExpression' ? (parts(it, 'elements')[0] ?? null) : it) ?? []);
}

/** An expression without its types, as `JOBS as const`, and without calls that freeze it. */
function bare(node: SyntaxNode | null): SyntaxNode | null {
  if (node === null) return null;
  if (node.type.startsWith('TS')) return bare(part(node, 'expression'));
  const callee = part(node, 'callee');
  if (callee !== null && lastIn(callee) === 'freeze') return bare(parts(node, 'arguments')[0] ?? null);
  return node;
}
