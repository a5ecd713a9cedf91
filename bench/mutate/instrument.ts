import { parseAst } from 'vite';
import { type Alternative, allAlternativesTo, type Syntax } from './operators.js';

/** One planted error. */
export interface CoreMutant {
  readonly id: number;
  readonly file: string;
  readonly line: number;
  /** The function that it is in. */
  readonly within: string;
  readonly operator: string;
  readonly original: string;
  readonly replacement: string;
}

/** A module with all of its errors planted, each asleep until {@link SWITCH} has its number. */
interface Instrumented {
  readonly code: string;
  readonly mutants: readonly CoreMutant[];
}

/** The global that says which error is awake. */
export const SWITCH = '__lockstepMutant';

interface Site {
  readonly node: Syntax;
  readonly within: string;
  readonly alternatives: readonly Alternative[];
}

/** Plants errors in the functions of a module's TypeScript; `firstId` is the number of the first. */
export function instrument(file: string, source: string, firstId: number): Instrumented {
  const code = (node: Syntax): string => source.slice(node.start, node.end);
  const sites: Site[] = [];
  visit(parseAst(source, { lang: 'ts' }) as unknown as Syntax, null, null, (node, parent, within) => {
    const alternatives = allAlternativesTo(node, parent, code);
    if (alternatives.length > 0) sites.push({ node, within, alternatives });
  });
  const mutants: CoreMutant[] = [];
  const firstIds = new Map<Site, number>();
  for (const site of sites) {
    firstIds.set(site, firstId + mutants.length);
    for (const { operator, text } of site.alternatives) {
      mutants.push({
        id: firstId + mutants.length,
        file,
        line: source.slice(0, site.node.start).split('\n').length,
        within: site.within,
        operator,
        original: oneLine(code(site.node)),
        replacement: text === null ? '' : oneLine(text),
      });
    }
  }
  return { code: woven(source, 0, source.length, sites, firstIds), mutants };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ');
}

/** The text between two places, with the sites in it made switches; a site may have others in it. */
function woven(
  source: string,
  from: number,
  to: number,
  sites: readonly Site[],
  firstIds: ReadonlyMap<Site, number>,
): string {
  let text = '';
  let at = from;
  const inside = sites.filter(({ node }) => node.start >= from && node.end <= to);
  for (let i = 0; i < inside.length; ) {
    const site = inside[i] as Site;
    const rest = inside.slice(i + 1).filter(({ node }) => node.end <= site.node.end);
    const inner = woven(source, site.node.start, site.node.end, rest, firstIds);
    text += source.slice(at, site.node.start) + switched(site, inner, firstIds.get(site) ?? 0);
    at = site.node.end;
    i += 1 + rest.length;
  }
  return text + source.slice(at, to);
}

function switched({ alternatives }: Site, inner: string, firstId: number): string {
  const [first] = alternatives;
  if (first?.text === null) {
    // In a block of its own: an `else` behind it belongs to another `if`.
    return `{ if (globalThis.${SWITCH} !== ${firstId}) { ${inner} } }`;
  }
  const choices = alternatives.map(({ text }, i) => `globalThis.${SWITCH} === ${firstId + i} ? (${text}) : `);
  return `(${choices.join('')}(${inner}))`;
}

type Visitor = (node: Syntax, parent: Syntax | null, within: string) => void;

/** Walks the tree in the order of the text, past types, imports and names, and calls for what is in functions. */
function visit(node: Syntax, parent: Syntax | null, within: string | null, see: Visitor): void {
  if (isPassedBy(node)) return;
  const name = within === null || node.type === 'FunctionDeclaration' ? (nameOf(node) ?? within) : within;
  if (within !== null) see(node, parent, within);
  for (const [field, value] of Object.entries(node)) {
    if (isName(node, field)) continue;
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child === 'object' && child !== null && 'type' in child) visit(child as Syntax, node, name, see);
    }
  }
}

/** The name of a function, declared or one of a table such as the rules. */
function nameOf({ type, id, key, value }: Syntax): string | null {
  const isEntry = type === 'Property' && FUNCTIONS.includes((value as Syntax).type);
  if (type !== 'FunctionDeclaration' && !isEntry) return null;
  return ((isEntry ? key : id) as { readonly name: string }).name;
}

const FUNCTIONS: readonly string[] = ['ArrowFunctionExpression', 'FunctionExpression'];

const PASSED_BY: readonly string[] = ['ImportDeclaration', 'ExportAllDeclaration', 'TemplateLiteral'];

function isPassedBy({ type }: Syntax): boolean {
  return PASSED_BY.includes(type) || (type.startsWith('TS') && !/^TS(As|Satisfies|NonNull)Expression$/.test(type));
}

/** Fields with names, which are not values. */
function isName(node: Syntax, field: string): boolean {
  if (field === 'key') return node.computed !== true;
  if (field === 'property') return node.type === 'MemberExpression' && node.computed !== true;
  return field === 'id' || field === 'params' || field === 'label';
}
