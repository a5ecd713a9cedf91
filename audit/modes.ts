import type { Parameter } from './parameter.js';

/** The texts by which a file tells those who only read from those who exclude all others. */
export interface Modes {
  readonly reads: string;
  readonly writes: string;
}

/** Who is asked for: one who reads, or one who writes. */
interface Asked {
  readonly modes?: Modes | null;
  readonly reads?: boolean;
}

const READS = /['"](read|reader|shared|share|reading|R|r)['"]/;
const WRITES = /['"](write|writer|exclusive|excl|writing|W|w)['"]/;
const IS_MODE = /^(?:mode|access|kind|intent|lock_?(?:mode|type|kind)|access_?mode)$/i;
const IS_SHARED = /^(?:is_?)?(?:shared|read_?only|read|reader)$/i;
const IS_EXCLUSIVE = /^(?:is_?)?(?:exclusive|write|writer|for_?update)$/i;

/** Both texts, as a file writes them; `null` where it has not both. */
export function modesIn(sources: readonly { readonly text: string }[]): Modes | null {
  const [reads, writes] = [READS, WRITES].map(
    (it) => sources.map(({ text }) => it.exec(text)?.[1]).find((word) => word !== undefined) ?? null,
  );
  return reads && writes ? { reads, writes } : null;
}

function isFlag({ name, type }: Parameter): boolean {
  return type === 'boolean' && (IS_SHARED.test(name) || IS_EXCLUSIVE.test(name));
}

/** Whether a parameter, or an option of one, says who is asked for. */
export function saysMode(parameter: Parameter, modes: Modes | null | undefined): boolean {
  const { name, type, isFunction, fields } = parameter;
  if (isFunction) return false;
  const isText = modes != null && IS_MODE.test(name) && !/^(?:number|boolean)\b/.test(type);
  return isText || isFlag(parameter) || fields.some((it) => saysMode(it, modes));
}

/** What a parameter that says who is asked for is given; `undefined` for any other. */
export function modeFor(parameter: Parameter, { modes, reads = false }: Asked): unknown {
  if (parameter.fields.length > 0 || !saysMode(parameter, modes)) return undefined;
  if (isFlag(parameter)) return IS_SHARED.test(parameter.name) === reads;
  return reads ? modes?.reads : modes?.writes;
}
