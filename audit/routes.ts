import { OTHER_URL } from './environment.js';
import { expressionsIn, formFor } from './forms.js';

/** An expression for the path of a request: `/^\/orders\/([\w-]+)\/pay$/`. */
const ROUTE = /\/(\^\\\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])*)\/[a-z]*/g;

const MAY_BE_LEFT_OUT = /\((?:\?:)?[^()]*\)[?*]|\\\/\?|\$$/g;
const EITHER = /\(\?:([^()|]*)[^()]*\)/g;
/** What stands for the name of a thing. */
const NAMES = /\((?:\?<\w+>)?([^()]*)\)|((?:\[[^\]]*\]|\\[wdS]|\.)[+*])/g;

/** A path that an expression matches, about a thing of this name. */
function pathOf(expression: string, name: string): string {
  return expression
    .slice(1)
    .replace(MAY_BE_LEFT_OUT, '')
    .replace(EITHER, '$1')
    .replace(NAMES, (_, group: string | undefined, any: string | undefined) => formFor(group ?? any ?? '')(name))
    .replaceAll(/\\(.)/g, '$1');
}

function matches(expression: string): boolean {
  return expressionsIn(expression).some((it) => it.test(pathOf(expression, 'a')));
}

/** The URL of a request is its path alone there. */
const IS_PATH = /\b(?:createServer|IncomingMessage|ServerResponse)\b/;

/** Makes the URL of a request that is about a thing of this name, for files that match it against an expression; `null` for others. */
export function pathsIn(texts: readonly string[]): ((name: string) => string) | null {
  const all = texts.flatMap((it) => [...it.matchAll(ROUTE)].map(([, expression = '']) => expression)).filter(matches);
  // What names a thing comes before what is asked for by itself, as the health of the server.
  const expression = all.find((it) => it.includes('(')) ?? all[0];
  if (expression === undefined) return null;
  const origin = texts.some((it) => IS_PATH.test(it)) ? '' : OTHER_URL;
  return (name) => `${origin}${pathOf(expression, name)}`;
}
