import { existsSync, readFileSync } from 'node:fs';
import { extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Command, Option } from 'commander';
import { InputError, show } from '../scenarios/input-error.js';
import { meant } from '../scenarios/nearest.js';
import { isPlainObject } from '../scenarios/plain-data.js';
import { givenTwice, ListOption } from './option.js';
import { nameNow, valueNow, verbNow } from './renamed.js';

/** Where flags may be written down, below the working directory. */
const CONFIG_FILES: readonly string[] = ['ts', 'mjs', 'js', 'json'].map((it) => `lockstep.config.${it}`);

/** Values of flags, by verb. */
interface Config {
  /** As a person knows it. */
  readonly path: string;
  readonly verbs: Readonly<Record<string, unknown>>;
}

/** What of a command line is about the file itself. */
interface ConfigChoice {
  readonly argv: readonly string[];
  /** `false`: none; `undefined`: whichever is there. */
  readonly file: string | false | undefined;
}

/**
 * Takes `--config <file>` and `--no-config` out of a command line: they go with every verb.
 *
 * @throws InputError if no file follows.
 */
export function configChoice(argv: readonly string[]): ConfigChoice {
  const rest: string[] = [];
  let file: string | false | undefined;
  const choose = (chosen: string | false): void => {
    if (chosen !== false && typeof file === 'string') throw givenTwice('--config');
    if (file !== undefined && chosen !== file)
      throw new InputError('--config: it contradicts --no-config; leave out one of them');
    file = chosen;
  };
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? '';
    if (word === '--no-config') choose(false);
    else if (word.startsWith('--config=')) choose(word.slice('--config='.length));
    else if (word === '--config') {
      const named = argv[++i];
      if (named === undefined) throw new InputError('--config: name a file after it');
      choose(named);
    } else rest.push(word);
  }
  return { argv: rest, file };
}

/** Whether a file is named, or there is one. */
export function isConfigured({ file }: ConfigChoice, cwd: string): boolean {
  return file !== false && (file !== undefined || filesIn(cwd).length > 0);
}

function filesIn(cwd: string): string[] {
  return CONFIG_FILES.filter((name) => existsSync(join(cwd, name)));
}

/**
 * Reads the file that is named, or the one that is there; `null` if there is none.
 *
 * @throws InputError if there are several, or something is wrong with it.
 */
export async function loadConfig(file: string | undefined, cwd: string): Promise<Config | null> {
  const there = file === undefined ? filesIn(cwd) : [file];
  const [path, other] = there;
  if (path === undefined) return null;
  if (other !== undefined) throw new InputError(`there are both ${path} and ${other}; keep one of them`);
  if (!existsSync(resolve(cwd, path))) throw new InputError(`--config: there is no file ${show(path)}`);
  const verbs = await readData(resolve(cwd, path), path);
  if (!isPlainObject(verbs))
    throw new InputError(`${path}: it must be an object of verbs, such as { "check": { "ttl": "5s" } }`);
  return { path, verbs };
}

/**
 * What a file of JSON holds, or what a module exports by default.
 *
 * @param path - As a person knows it.
 * @throws InputError if it cannot be read.
 */
export async function readData(file: string, path: string): Promise<unknown> {
  try {
    switch (extname(file)) {
      case '.json':
        return JSON.parse(readFileSync(file, 'utf8'));
      case '.ts':
      case '.mts': {
        // Node 20 has no way of its own to load TypeScript.
        const { createJiti } = await import('jiti');
        return await createJiti(import.meta.url, { moduleCache: false }).import(file, { default: true });
      }
      default: {
        const { default: config }: { default?: unknown } = await import(pathToFileURL(file).href);
        return config;
      }
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : String(error);
    throw new InputError(`${path}: it cannot be read (${reason})`);
  }
}

/**
 * Gives a verb what the file says, where the command line says nothing.
 *
 * @returns The flags that the file gave, as the words that would be written.
 * @throws InputError naming the file, the verb and the flag if one is unknown or has a wrong value.
 */
export function applyConfig({ path, verbs }: Config, verb: Command): string[] {
  const names = verb.parent?.commands.map((it) => it.name()) ?? [verb.name()];
  for (const name of Object.keys(verbs)) {
    if (!names.includes(verbNow(name)))
      throw new InputError(`${path}: ${show(name)} is no verb; ${meant(name, names, 'there are')}`);
  }
  const named = Object.keys(verbs).find((it) => verbNow(it) === verb.name());
  const given = named === undefined ? {} : verbs[named];
  if (!isPlainObject(given))
    throw new InputError(`${path}: ${verb.name()}: it must be an object of flags and their values`);
  return Object.entries(given).flatMap(([key, value]) => {
    const where = `${path}: ${verb.name()}.${key}`;
    const flag = nameNow(verb.name(), key);
    const option = optionOf(verb, flag, where);
    if (verb.getOptionValueSource(option.attributeName()) === 'cli') return [];
    return set(verb, option, typeof value === 'string' ? valueNow(flag, value) : value, where);
  });
}

/** By its name with dashes or as one word, without the `no-`. */
function optionOf(verb: Command, key: string, where: string): Option {
  const nameOf = (it: Option): string => it.name().replace(/^no-/, '');
  const found = verb.options.find((it) => nameOf(it) === key || it.attributeName() === key);
  if (found !== undefined) return found;
  const names = [...new Set(verb.options.map(nameOf))];
  throw new InputError(`${where}: there is no such flag; ${meant(key, names, 'there are')}`);
}

function set(verb: Command, option: Option, value: unknown, where: string): string[] {
  const name = option.attributeName();
  const dashed = option.name().replace(/^no-/, '');
  const isSwitch = !option.required && !option.optional;
  if (typeof value === 'boolean' && isSwitch) {
    verb.setOptionValueWithSource(name, value, 'config');
    return value === option.negate ? [] : [`--${value ? '' : 'no-'}${dashed}`];
  }
  const texts = isSwitch ? [] : textsOf(value);
  if (texts.length === 0) {
    throw new InputError(
      `${where}: ${show(String(value))} is no value of it; use ${isSwitch ? 'true or false' : 'text or a number'}`,
    );
  }
  if (texts.length > 1 && !(option instanceof ListOption))
    throw new InputError(`${where}: it takes one value, not a list of ${texts.length}`);
  try {
    const parsed = texts.reduce<unknown>((before, text) => option.parseArg?.(text, before) ?? text, undefined);
    verb.setOptionValueWithSource(name, parsed, 'config');
  } catch (error) {
    throw error instanceof InputError ? new InputError(`${fileOf(where)}: ${error.message}`) : error;
  }
  return texts.flatMap((text) => [`--${dashed}`, text]);
}

/** The file alone: the error names the flag. */
function fileOf(where: string): string {
  return where.slice(0, where.indexOf(': '));
}

function textsOf(value: unknown): string[] {
  const isText = (it: unknown): it is string | number => typeof it === 'string' || typeof it === 'number';
  if (isText(value)) return [String(value)];
  return Array.isArray(value) && value.every(isText) ? value.map(String) : [];
}
