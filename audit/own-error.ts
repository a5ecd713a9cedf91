import { basename } from 'node:path';
import { authorsLine } from '../libraries/frames.js';
import type { Program } from './program.js';
import { part, parts, type SyntaxNode, syntaxOf, visit } from './syntax.js';
import { nameOf } from './uses.js';

const PLACE = /^(.*):(\d+):\d+$/;

/**
 * Whether a file has thrown an error in a `try` block with a `finally`, or in a function that it hands over: its lock is released after
 * that, and so the error is not one of the release.
 */
export function isOfWork({ sources }: Program, error: unknown): boolean {
  const [, path = '', line = ''] = PLACE.exec((error instanceof Error ? authorsLine(error) : null) ?? '') ?? [];
  const name = basename(path);
  const source = sources.find(({ shapes }) => shapes.some(({ where }) => basename(where).startsWith(`${name}:`)));
  return source !== undefined && isWithin(source.text, name, Number(line));
}

/** What is handed a function that handles an outcome, or waits: not the work. */
const HANDLES = /^(?:then|catch|finally|setTimeout|setInterval|setImmediate|nextTick|on|once)$/;

/** The functions that are written where a call hands them over: the work. */
function worksOf(call: SyntaxNode): readonly SyntaxNode[] {
  const callee = part(call, 'callee');
  if (callee !== null && HANDLES.test(nameOf(part(callee, 'property') ?? callee))) return [];
  return parts(call, 'arguments').filter(({ type }) => /^(?:Arrow)?FunctionExpression$/.test(type));
}

function isWithin(text: string, name: string, line: number): boolean {
  const start = text.split('\n', line - 1).reduce((sum, it) => sum + it.length + 1, 0);
  const thrown =
    start +
    (text
      .slice(start)
      .split('\n', 1)[0]
      ?.search(/\bthrow\b/) ?? -1);
  if (thrown < start) return false;
  let isIn = false;
  visit(syntaxOf(text, name), (node) => {
    const block = node.type === 'TryStatement' && part(node, 'finalizer') !== null ? part(node, 'block') : null;
    const handed = node.type === 'CallExpression' ? worksOf(node) : [];
    isIn ||= [block, ...handed].some((it) => it !== null && it.start < thrown && thrown < it.end);
  });
  return isIn;
}
