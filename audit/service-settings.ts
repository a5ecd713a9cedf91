import { unitIn } from './units.js';

/* Settings that are asked for by name, of a service: `config.get('LOCK_TTL_MS', 15_000)`. */

/** What reads a setting: of `ConfigService` of NestJS, `config`, `nconf` and the like. */
const READS_SETTING = /(?:^|\.)_?\w*(?:config|conf|settings|environment)\w*\.(?:get|getOrThrow|getNumber|getString)$/i;
const READ =
  /\b\w*(?:[cC]onf|[sS]ettings|[eE]nvironment)\w*\??\.(?:get|getOrThrow|getNumber|getString)(?:<[^<>()]*>)?\(\s*['"`]([A-Za-z][\w.:]*)['"`]/g;

/** What has settings as its properties: `app.config`, and a part of that. */
const HAS_SETTINGS = /(?:^|\.)_?\w*(?:[cC]onfig|cfg|[sS]ettings)((?:\.\w+)?)$/;

/** The same as {@link settingAt} for a property: `app.config.LOCK_TTL_MS`. */
export function settingIn(path: string, name: string): string | number | undefined {
  const [, part] = HAS_SETTINGS.exec(path) ?? [];
  return part === undefined ? undefined : settingOf(`${part}.${name}`.replace(/^\./, ''));
}

/** The variable of the environment that a setting has as a rule: `REDIS_URL` of `redis.url`. */
function variableOf(name: string): string {
  return name
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll(/[.:]/g, '_')
    .toUpperCase();
}

/** Variables of the environment that stand for the settings that a file asks a service for. */
export function settingsAsked(text: string): string[] {
  return [...text.matchAll(READ)].map(([, name = '']) => variableOf(name));
}

/** How long a key lives, and what is shorter than that. */
const IS_TTL = /ttl|lease|lock|expir/i;
const IS_TIME = /(?:ttl|lease|expir\w*|duration|timeout|interval|delay|wait|backoff|grace)$/i;
const [LONG_MS, SHORT_MS] = [60_000, 1_000];
const MOST_TRIES = 3;

/** Names of settings of which nothing is known, and which were guessed in this audit. */
export const guessedSettings: Set<string> = new Set();

/**
 * What a service gives for a setting: the default that it is told, else what the environment has, else a number for a time, which is
 * long for a TTL; `undefined` for everything else.
 */
export function settingAt(path: string, [name, otherwise]: readonly unknown[]): string | number | boolean | undefined {
  if (typeof name !== 'string' || !READS_SETTING.test(path)) return undefined;
  if (typeof otherwise === 'number' || typeof otherwise === 'string' || typeof otherwise === 'boolean')
    return otherwise;
  return settingOf(name);
}

function settingOf(name: string): string | number | undefined {
  const variable = variableOf(name);
  // What has one word is a variable of the machine, if it is one.
  const set = variable.includes('_') ? process.env[variable] : undefined;
  if (set !== undefined) return set;
  const unitMs = unitIn(name);
  const isCount = /retr|attempts/i.test(name);
  if (!isCount && unitMs === null && !IS_TIME.test(name)) return undefined;
  guessedSettings.add(name);
  return isCount ? MOST_TRIES : (IS_TTL.test(name) ? LONG_MS : SHORT_MS) / (unitMs ?? 1);
}
