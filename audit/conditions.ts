import { part, parts, type SyntaxNode, syntaxOf, visit } from './syntax.js';
import { nameOf } from './uses.js';

/* A file may leave a function on a condition about values that an audit does not know: `if (wallet.ownerId !== user) return`. What
 * comes after that would not be done. An audit can pass over such a condition, as if it were false. */

/** The function that instrumented code hands such a condition. */
export const FIRES = '__lockstepFires';

/** Which conditions are passed over, and what receives the others. */
export const conditions: {
  /** By file, and place in it. */
  passed: ReadonlySet<string>;
  /** Receives each other one, and whether it was true. */
  noted: ((id: string, isTrue: boolean) => void) | null;
} = { passed: new Set(), noted: null };

/** Whether a function is left on a condition. */
export function fires(id: string, test: unknown): boolean {
  if (conditions.passed.has(id)) return false;
  conditions.noted?.(id, Boolean(test));
  return Boolean(test);
}

/** Instruments the conditions on which a file leaves a function, or goes on with the next of a loop. The lines stay the same. */
export function withConditions(text: string, name: string): string {
  // One condition may be in a function that is in another.
  const added = conditionsIn(syntaxOf(text, name)).flatMap(({ start, end }) => [
    { at: start, more: `${FIRES}(${JSON.stringify(`${name}:${start}`)},(` },
    { at: end, more: '))' },
  ]);
  added.sort((a, b) => b.at - a.at);
  return added.reduce((told, { at, more }) => told.slice(0, at) + more + told.slice(at), text);
}

/**
 * Those of asynchronous functions, and those on which something is thrown: others are of code that reads a protocol, or goes through a
 * list, which would not end without them.
 */
function conditionsIn(program: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  const waiting = new Set<SyntaxNode>();
  const looping = new Set<SyntaxNode>();
  visit(program, (node) => {
    if (LOOPS.test(node.type)) visit(node, (it) => looping.add(it));
    if (IS_FUNCTION.test(node.type))
      visit(node, (it) => {
        looping.delete(it);
        if (node.async === true) waiting.add(it);
        else waiting.delete(it);
      });
    const consequent = node.type === 'IfStatement' ? part(node, 'consequent') : null;
    const test = leaves(consequent) && !looping.has(node) ? part(node, 'test') : null;
    if (test !== null && !comparesNames(test) && (waiting.has(node) || throws(consequent))) found.push(test);
  });
  return found;
}

/** What compares two things that have names is given two: `if (from === to) throw …`. */
function comparesNames(test: SyntaxNode): boolean {
  const isNamed = (it: SyntaxNode | null): boolean =>
    /^(?:Identifier|(?:Optional)?MemberExpression)$/.test(it?.type ?? '');
  return /^===?$/.test(String(test.operator)) && isNamed(part(test, 'left')) && isNamed(part(test, 'right'));
}

const LOOPS = /^(?:For|While|DoWhile)Statement$/;
const IS_FUNCTION = /^(?:ArrowFunctionExpression|Function\w+|\w*Method)$/;

function throws(node: SyntaxNode | null): boolean {
  const last = node?.type === 'BlockStatement' ? parts(node, 'body').at(-1) : node;
  return last?.type === 'ThrowStatement';
}

/** Whether a statement ends with leaving its function or its loop. */
export function leaves(node: SyntaxNode | null): boolean {
  if (node === null) return false;
  if (node.type === 'BlockStatement') return leaves(parts(node, 'body').at(-1) ?? null);
  if (/^(?:Return|Throw|Continue|Break)Statement$/.test(node.type)) return true;
  // `ctx.throw(400, …)`.
  const called = node.type === 'ExpressionStatement' ? part(part(node, 'expression') ?? node, 'callee') : null;
  return called !== null && nameOf(part(called, 'property')) === 'throw';
}
