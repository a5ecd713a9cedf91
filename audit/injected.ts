/* Properties of classes that have decorators: what gives them their values, or describes them, is not run. */

/** The folder, which is not there, from whose files such properties get their values. */
const GIVEN_BY = '#injected';

const PROPERTY =
  /(?<=^|[{;])([ \t]*)((?:@[\w.]+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?\s*)+)((?:(?:public|private|protected|readonly|override|static|declare)\s+)*[\w$]+)([!?]?)(\s*(?::[^;=(\n]+)?)([;=])/gm;
const GIVES = /@(?:\w+\.)?(?:Inject\w*|Autowired)\b/;
const IS_CLIENT = /redis|valkey|keydb/i;
/** What is no client, though it is named after one: a lock has to be its own. */
const IS_LOCK = /lock|mutex|semaphore/i;
const WITHIN_LINES = /[^\n]/g;

/** Whether what stands for it was not asked for by the file itself. */
export function isInjected(request: string): boolean {
  return request.startsWith(GIVEN_BY);
}

/**
 * The text of a file whose decorated properties have the values that they are given by dependency injection
 * (`@Inject(REDIS) private readonly redis!: Redis;`), on the same lines; every other decorator of a property is left out.
 */
export function withInjected(text: string): string {
  const imports = new Set<string>();
  const given = (decorators: string, head: string, type: string): string => {
    const name = /[\w$]+$/.exec(head)?.[0] ?? '';
    const about = `${decorators} ${head} ${type}`;
    if (!GIVES.test(decorators) || IS_LOCK.test(about)) return '';
    const isClient = IS_CLIENT.test(about);
    imports.add(
      isClient
        ? `import { redis as injectedRedis } from '${GIVEN_BY}/redis';`
        : `import * as injectedServices from '${GIVEN_BY}/services';`,
    );
    return isClient ? ' = injectedRedis' : ` = injectedServices.${name}`;
  };
  const undecorated = text.replace(
    PROPERTY,
    (_, indent: string, decorators: string, head: string, mark: string, type: string, end: string) => {
      const value = end === ';' ? given(decorators, head, type) : '';
      const named = `${head}${value === '' && end === ';' ? mark : ''}${type}`;
      return `${decorators.replace(WITHIN_LINES, '')}${indent}${named}${value}${end}`;
    },
  );
  return `${[...imports].join(' ')}${undecorated}`;
}
