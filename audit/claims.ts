const PROCESS = '(?:server|instance|process|node|replica|pod|worker|machine|host|container)';
const PERIOD_NAME =
  '(?:night|day|hour|month|week|minute|midnight|morning|evening|quarter|period|interval|slot|firing|tick)';

/** A comment that says so: of how often work is done, and not of how often it is asked for. */
const CLAIMS_ONCE = new RegExp(
  `(?:\\b(?:exactly|only|at most) once|\\bexactly one \\w+|\\b(?:by|on) (?:only |exactly )?(?:a single|one) ${PROCESS}|\\b(?:only|exactly) one ${PROCESS} (?:runs|does|sends|performs|executes))\\b[^.]{0,40}?\\b(?:each|every|per|a|an) ${PERIOD_NAME}\\b`,
  'i',
);
/** Comments go on in the next line. */
const LINE_BREAK = /\s*\n\s*(?:\*|\/\/)?\s*/g;

/** What files say about how often their work is done. */
export interface Claims {
  /** A comment on it; `null` where there is none. */
  readonly claim: string | null;
  /** The schedule of a job of once a day; `null` where there is none. */
  readonly daily: string | null;
  /** A column to which work adds each time that it is done; `null` where there is none. */
  readonly adds: string | null;
  /** In a transaction, they add a record that may be there already, and do nothing more where it is. */
  readonly claimsRecord: boolean;
}

/** What these files say about how often their work is done. */
export function claimsIn(texts: readonly string[]): Claims {
  const daily = texts.map((it) => DAILY.exec(it)?.[2]).find((it) => it !== undefined) ?? null;
  const claimsRecord = texts.some((it) => IN_TRANSACTION.test(it) && CLAIMS_RECORD.test(it));
  return { claim: claimIn(texts), daily, adds: addsIn(texts), claimsRecord };
}

function claimIn(texts: readonly string[]): string | null {
  const claims = texts.map((it) => CLAIMS_ONCE.exec(it.replace(LINE_BREAK, ' '))?.[0]);
  return claims.find((it) => it !== undefined) ?? null;
}

/** A schedule of one time a day, or less often: its minute and its hour are numbers. */
const DAILY = /\b(?:(?:schedule\w*|Cron(?:Job)?)\(\s*|cronTime:\s*)(['"`])((?:\d+ )?\d+ \d+ \S+ \S+ \S+)\1/;
const IN_TRANSACTION = /\btransaction\b|['"`]begin\b/i;
/** `… ON CONFLICT DO NOTHING …; if (rowCount === 0) return`, and the same of a query builder. */
const CLAIMS_RECORD =
  /(?:\bon\s+conflict\b[^;`]{0,80}\bdo\s+nothing\b|\.onConflict\([^()]*\)\s*\.ignore\(\)|\binsert\s+ignore\b)[\s\S]{0,160}?\bif\s*\(\s*(?:!\s*[\w?.]+|[\w?.]+\s*===?\s*(?:0|null|undefined))\s*\)\s*(?:\{[^{}]{0,160})?\b(?:return|throw)\b/i;
const UPDATE = /\bupdate\s+[\w".]+\s+set\s+([^;`]*?)\bwhere\b([^;`]*)/gi;
/** A column that is set to more, or less, than it was. */
const ADDS = /\b(\w+)\s*=\s*(?:\w+\.)?\1\s*[+-]/i;

/** The column of a statement that adds each time, as none of its conditions is on what it sets. */
function addsIn(texts: readonly string[]): string | null {
  for (const [, set = '', where = ''] of texts.flatMap((it) => [...it.matchAll(UPDATE)])) {
    const column = ADDS.exec(set)?.[1];
    const isGuarded = [...set.matchAll(/(\w+)\s*=/g)].some(([, name]) => new RegExp(`\\b${name}\\b`, 'i').test(where));
    if (column !== undefined && !isGuarded) return column;
  }
  return null;
}

/** A comment on a class of which each request, or each call, makes an object: `One scope per request`. */
const OF_EACH =
  /\b(?:(?:one|an?|own|new|fresh) (?:\w+ )?(?:scope|instance|object|context|session|copy|of (?:these|them)) (?:per|for (?:each|every)) |(?:not|never)(?: be)? (?:shared|reused) (?:between|across|by|among) (?:\w+ )?)(?:request|call|task|operation|job|message|flow|invocation|transaction|unit of work)s?\b/i;

/** Whether each request or call makes an object of a class of its own, as the comment before that class says. */
export function isOfEach(texts: readonly string[], className: string): boolean {
  const before = new RegExp(
    String.raw`/\*\*((?:(?!\*/)[\s\S])*)\*/\s*(?:export\s+)?(?:default\s+)?class\s+${className}\b`,
  );
  return texts.some((it) => OF_EACH.test((before.exec(it)?.[1] ?? '').replace(LINE_BREAK, ' ')));
}
