import { parse } from '@babel/parser';
import { InputError } from '../scenarios/input-error.js';

/** A node of a syntax tree, as far as it is looked at here. */
export interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly loc: { readonly start: { readonly line: number } };
  readonly [field: string]: unknown;
}

/** Whether a value is a part of a syntax tree. */
export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string';
}

/** The part of a node in a field; `null` where there is none. */
export function part(node: SyntaxNode, field: string): SyntaxNode | null {
  const value = node[field];
  return isNode(value) ? value : null;
}

/** The parts of a node in a field that is a list. */
export function parts(node: SyntaxNode, field: string): SyntaxNode[] {
  const value = node[field];
  return Array.isArray(value) ? value.filter(isNode) : [];
}

/** Visits a node and all that is in it, outermost first. */
export function visit(node: SyntaxNode, look: (node: SyntaxNode) => void): void {
  look(node);
  for (const value of Object.values(node)) {
    if (isNode(value)) visit(value, look);
    else if (Array.isArray(value)) for (const it of value) if (isNode(it)) visit(it, look);
  }
}

/** Trees of the texts that were parsed last. One text is read for several purposes, and nobody changes a tree. */
const latest = new Map<string, SyntaxNode>();
const MOST_KEPT = 16;

/** Parses JavaScript or TypeScript. @throws InputError in one sentence for what is neither. */
export function syntaxOf(text: string, name: string): SyntaxNode {
  const isTyped = !/\.[cm]?jsx?$/.test(name);
  const key = `${isTyped} ${text}`;
  const known = latest.get(key) ?? parsed(text, name, isTyped);
  latest.delete(key);
  latest.set(key, known);
  const [oldest = key] = latest.keys();
  if (latest.size > MOST_KEPT) latest.delete(oldest);
  return known;
}

function parsed(text: string, name: string, isTyped: boolean): SyntaxNode {
  const plugins = ['decorators-legacy', 'explicitResourceManagement', ...(isTyped ? ['typescript'] : ['jsx'])] as const;
  try {
    const { program } = parse(text, {
      sourceType: 'unambiguous',
      allowAwaitOutsideFunction: true,
      allowReturnOutsideFunction: true,
      plugins: [...plugins] as NonNullable<Parameters<typeof parse>[1]>['plugins'] & object,
    });
    return program as unknown as SyntaxNode;
  } catch (error) {
    const { message, loc } = error as Error & { readonly loc?: { readonly line: number; readonly column: number } };
    const where = loc === undefined ? name : `${name}:${loc.line}:${loc.column + 1}`;
    throw new InputError(
      `${where}: it has a syntax error: ${message.replace(/\s*\(\d+:\d+\)\s*$/, '').split('\n', 1)[0]}`,
      {
        cause: error,
      },
    );
  }
}

/** The syntax of a text, with types or without. */
export function treeOf(text: string): SyntaxNode {
  try {
    return syntaxOf(text, 'file.ts');
  } catch {
    return syntaxOf(text, 'file.js');
  }
}
