const PROCESS = '(?:server|instance|process|node|replica|pod|worker|machine|host|container)';
const PERIOD_NAME =
  '(?:night|day|hour|month|week|minute|midnight|morning|evening|quarter|period|interval|slot|firing|tick)';

/** A comment that says so: of how often work is done, and not of how often it is asked for. */
const CLAIMS_ONCE = new RegExp(
  `(?:\\b(?:exactly|only|at most) once|\\b(?:by|on) (?:only |exactly )?(?:a single|one) ${PROCESS}|\\b(?:only|exactly) one ${PROCESS} (?:runs|does|sends|performs|executes))\\b[^.]{0,40}?\\b(?:each|every|per|a|an) ${PERIOD_NAME}\\b`,
  'i',
);
/** Comments go on in the next line. */
const LINE_BREAK = /\s*\n\s*(?:\*|\/\/)?\s*/g;

/** What a comment of these files claims about how often work is done; `null` where none does. */
export function claimIn(texts: readonly string[]): string | null {
  const claims = texts.map((it) => CLAIMS_ONCE.exec(it.replace(LINE_BREAK, ' '))?.[0]);
  return claims.find((it) => it !== undefined) ?? null;
}
