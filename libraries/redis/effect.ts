import type { Answer, Operation } from '../../core/index.js';
import { type Entry, type Keyspace, NEVER, type Reply, Server, Session } from '../../wire/index.js';
import { fromBytes, toBytes } from './bytes.js';
import { scoreOf, textsOf } from './collections.js';
import { answerOf } from './reply.js';

/** What a command does to a node. */
export interface Effect {
  readonly operation: Extract<Operation, 'acquire' | 'extend' | 'release'>;
  readonly keys: readonly string[];
  /**
   * What it stores, or what has to be there for it to do anything; `null` if that is no argument of it, or if it makes it of data, as of a
   * counter.
   */
  readonly value: string | null;
  /** What keys live for from then on, ms; 0 without an end. */
  readonly ttlMs: number;
  /** It answers 0, or nothing, where it acquires, and something else where it does not. */
  readonly isInverted?: boolean;
  /** It stores another value than the one that has to be there. */
  readonly replaces?: boolean;
}

/** What carries out Lua: a script by its text, or a function by its name. */
interface Body {
  readonly verb: 'eval' | 'fcall';
  readonly text: string;
}

/** The value of a key that is another's. */
const OTHERS = 'another';

/** Of keys that are there before. */
const LONG_MS = 1_000_000_000;

/** A time is another one so much later, ms. */
const LATER_MS = 1_000_000;

/** More arguments than this are not tried as values. */
const MOST_VALUES = 8;

/** What was found before, by the words of a command. */
const MOST_KNOWN = 1_000;

/** Values that a script can only store and compare: one is as good as another. */
const TOKEN = /^(?=.*\d)[\w-]{16,}$/;
const SHORTEST_TOKEN = 16;

/** The same words, with a word of the same length for each token in them, so that they are known for other tokens. */
function withoutTokens(words: readonly string[]): readonly string[] {
  return words.map((word) => {
    if (word.length < SHORTEST_TOKEN || !TOKEN.test(word) || !Number.isNaN(Number(word))) return word;
    return `token-${words.indexOf(word)}-`.padEnd(word.length, '0');
  });
}

/** Who sends a command. */
export interface Sender {
  /** It acquires: what a command does where no key is comes first. */
  readonly isAcquiring: boolean;
  /** The words by which it asked for a lock last; `null` before any. */
  readonly acquiredBy: readonly string[] | null;
}

/** What was asked last, and the answer. */
interface Asked {
  readonly body: Body;
  readonly given: readonly string[];
  readonly sender: Sender;
  readonly effect: Effect | null;
}

function isSame(asked: Asked, { verb, text }: Body, given: readonly string[], sender: Sender): boolean {
  const { body, given: before } = asked;
  if (asked.sender.isAcquiring !== sender.isAcquiring || asked.sender.acquiredBy !== sender.acquiredBy) return false;
  if (body.verb !== verb || before.length !== given.length) return false;
  for (let i = 0; i < given.length; i++) if (before[i] !== given[i]) return false;
  return body.text === text;
}

/** An effect, and where its keys and its value are in the words of its command. */
interface Known {
  readonly effect: Effect;
  readonly keysAt: readonly number[];
  readonly valueAt: number;
  /** One of them is not among those words. */
  readonly isMade: boolean;
}

function placesOf(effect: Effect, words: readonly string[]): Known {
  const keysAt = effect.keys.map((it) => words.indexOf(it));
  const valueAt = effect.value === null ? 0 : words.indexOf(effect.value);
  return { effect, keysAt, valueAt, isMade: valueAt < 0 || keysAt.includes(-1) };
}

/** The greatest score in a sorted set, which may be a time; 0 for anything else. */
function latestScore({ value }: Entry): number {
  return Math.max(0, ...textsOf(value).map((member) => scoreOf(value, member)));
}

/** When a key ends, or by their scores the members in it, ms; `null` for one that is not there. */
function endOf(entry: Entry | undefined, byScore: boolean): number | null {
  if (entry === undefined) return null;
  return byScore ? latestScore(entry) : entry.expiresAt;
}

/**
 * Finds what scripts do by carrying them out on a server that is nobody's: where no key is, and where the keys have one of
 * the script's arguments as their value. Lua has to be loaded.
 */
export class Effects {
  private nowUs = 0;
  private readonly server = new Server({ now: () => this.nowUs, random: () => 0.5, databases: 1 });
  private session = connected();
  /** By the text of a script, or the name of a function; then by the words behind it. */
  private readonly known = new Map<string, Map<string, Known | null>>();
  private knownCount = 0;
  /** By the words of a command and of the one that acquired before it. */
  private readonly knownAfter = new Map<string, Known | null>();
  private latest: Asked | null = null;
  private library = '';

  /** Functions that nodes have from now on. */
  loadLibrary(code: string): void {
    if (code === this.library) return;
    this.library = code;
    this.server.execute(['function', 'load', 'replace', code].map(toBytes), this.session);
    this.forget();
  }

  private forget(): void {
    this.known.clear();
    this.knownAfter.clear();
    this.knownCount = 0;
    this.latest = null;
  }

  /** What a function of a library does, with what follows its name in `FCALL`. */
  ofFunction(name: string, given: readonly string[], sender: Sender): Effect | null {
    return this.of({ verb: 'fcall', text: name }, given, sender);
  }

  /** What a script does, with what follows its text in `EVAL`; `null` if nothing was found that it does. */
  ofScript(text: string, given: readonly string[], sender: Sender): Effect | null {
    return this.of({ verb: 'eval', text }, given, sender);
  }

  /** The same command goes to node after node. */
  private of(body: Body, given: readonly string[], sender: Sender): Effect | null {
    const { latest } = this;
    if (latest !== null && isSame(latest, body, given, sender)) return latest.effect;
    const effect = this.foundBy(body, given, sender);
    this.latest = { body, given, sender, effect };
    return effect;
  }

  private foundBy(body: Body, given: readonly string[], { isAcquiring, acquiredBy }: Sender): Effect | null {
    const effect = this.found(body, given, isAcquiring);
    if (acquiredBy === null || (effect !== null && (isAcquiring || effect.operation !== 'acquire'))) return effect;
    return this.afterAcquiring([body.verb, body.text, ...given], acquiredBy) ?? effect;
  }

  private found(body: Body, given: readonly string[], isAcquiring: boolean): Effect | null {
    const known = this.knownOf(body, withoutTokens(given), isAcquiring);
    if (known === null) return null;
    // What it made of a token is made of each.
    if (known.isMade) return this.knownOf(body, given, isAcquiring)?.effect ?? null;
    const { effect, keysAt, valueAt } = known;
    const keys = keysAt.map((place) => given[place] ?? '');
    return { ...effect, keys, value: effect.value === null ? null : (given[valueAt] ?? '') };
  }

  private knownOf(body: Body, words: readonly string[], isAcquiring: boolean): Known | null {
    const name = `${isAcquiring} ${body.verb} ${words.join('\0')}`;
    let ofBody = this.known.get(body.text);
    const before = ofBody?.get(name);
    if (before !== undefined) return before;
    const effect = this.find(body, words, isAcquiring);
    if (this.knownCount++ >= MOST_KNOWN) {
      this.forget();
      ofBody = undefined;
    }
    const known = effect && placesOf(effect, words);
    ofBody ??= new Map();
    this.known.set(body.text, ofBody.set(name, known));
    return known;
  }

  private find({ verb, text }: Body, [count = '0', ...rest]: readonly string[], isAcquiring: boolean): Effect | null {
    const keys = rest.slice(0, Number(count));
    const values = rest.slice(Number(count), Number(count) + MOST_VALUES);
    const argv = [verb, text, count, ...rest].map(toBytes);
    return isAcquiring
      ? (this.whereNothingIs(argv, values) ?? this.whereKeysAre(argv, keys, values))
      : (this.whereKeysAre(argv, keys, values) ?? this.whereNothingIs(argv, values));
  }

  private whereNothingIs(argv: readonly string[], values: readonly string[]): Effect | null {
    const { after, reply } = this.run(argv, [], '');
    const stored = [...after].map(([key, { value }]) => {
      const texts = textsOf(value).map(fromBytes);
      return [key, texts.find((it) => values.includes(it)) ?? texts[0] ?? ''] as const;
    });
    const own = stored.filter(([, value]) => values.includes(value));
    // What it counts may be as much as one of its arguments.
    const tokens = own.filter(([, value]) => Number.isNaN(Number(value)));
    // A counter stays beside a lock that ends.
    const ending = stored.filter(([key]) => after.get(key)?.expiresAt !== NEVER);
    const [chosen = []] = [tokens, own, ending, stored].filter((it) => it.length > 0);
    const [first] = chosen;
    if (first === undefined) return null;
    const [key, value] = first;
    const keys = chosen.map(([it]) => fromBytes(it));
    const keyEndsAt = after.get(key)?.expiresAt ?? NEVER;
    const expiresAt = this.memberEnd(argv, key, value) ?? keyEndsAt;
    const isOfData = own.length === 0 && this.storesNext(argv, key) !== value;
    const isInverted = answerOf(reply) === 'no' && this.answersOther(argv, keys, value) === 'yes';
    return {
      operation: 'acquire',
      keys,
      value: isOfData ? null : value,
      ttlMs: expiresAt === NEVER ? 0 : expiresAt,
      ...(isInverted ? { isInverted } : {}),
    };
  }

  /** What it answers where another process has the keys: by a text in them, or by the same command with another value. */
  private answersOther(argv: readonly string[], keys: readonly string[], value: string): Answer {
    const answer = answerOf(this.run(argv, keys.map(toBytes), OTHERS).reply);
    const own = toBytes(value);
    if (answer === 'yes' || !argv.includes(own)) return answer;
    const others = argv.map((it) => (it === own ? OTHERS : it));
    this.run(others, [], '');
    return answerOf(this.server.execute(argv, this.session));
  }

  /** What it stores in a key when that has gone, after what it has stored elsewhere; `null` where that is nothing. */
  private storesNext(argv: readonly string[], key: string): string | null {
    this.run(argv, [], '');
    const [keyspace] = this.server.instance.databases;
    keyspace?.remove(key);
    this.server.execute(argv, this.session);
    const entry = keyspace?.find(key);
    return entry === undefined ? null : (textsOf(entry.value).map(fromBytes)[0] ?? '');
  }

  /** When a member of a sorted set ends whose score is a time, though its key be there for longer; `null` for any other. */
  private memberEnd(argv: readonly string[], key: string, member: string): number | null {
    const scoreAt = (nowMs: number): number => {
      this.nowUs = nowMs * 1000;
      return scoreOf(this.run(argv, [], '').after.get(key)?.value ?? '', toBytes(member));
    };
    const [score, later] = [scoreAt(0), scoreAt(LATER_MS)];
    this.nowUs = 0;
    return score > 0 && later - score === LATER_MS ? score : null;
  }

  private whereKeysAre(argv: readonly string[], keys: readonly string[], values: readonly string[]): Effect | null {
    const [first] = keys;
    if (first === undefined) return null;
    for (const value of values.length > 0 ? values : ['']) {
      const { after } = this.run(argv, keys.map(toBytes), toBytes(value));
      const entry = after.get(toBytes(first));
      const of = { keys, value: values.length > 0 ? value : null };
      if (entry === undefined) return { operation: 'release', ...of, ttlMs: 0 };
      // It stores data in the first, and gives up the key that let it do so.
      const gone = keys.filter((it) => !after.has(toBytes(it)));
      if (gone.length > 0 && entry.value !== toBytes(value))
        return { operation: 'release', ...of, keys: gone, ttlMs: 0 };
      const ttlMs = entry.expiresAt === NEVER ? 0 : entry.expiresAt;
      const replaces = entry.value === toBytes(value) ? {} : { replaces: true };
      if (entry.expiresAt !== LONG_MS) return { operation: 'extend', ...of, ttlMs, ...replaces };
    }
    return null;
  }

  /**
   * What a command does to the keys that another one has made, which may be collections: it removes them, or has them end at
   * another time. `null` if nothing was found that it does.
   */
  afterAcquiring(words: readonly string[], acquiredBy: readonly string[]): Effect | null {
    const together = withoutTokens([...words, ...acquiredBy]);
    const name = together.join('\0');
    let known = this.knownAfter.get(name);
    if (known === undefined) {
      const own = together.slice(0, words.length);
      const effect = this.findAfter(own, together.slice(words.length));
      known = effect && placesOf(effect, own);
      if (this.knownAfter.size >= MOST_KNOWN) this.knownAfter.clear();
      this.knownAfter.set(name, known);
    }
    if (known === null || known.isMade) return null;
    const { effect, keysAt, valueAt } = known;
    return { ...effect, keys: keysAt.map((at) => words[at] ?? ''), value: effect.value && (words[valueAt] ?? null) };
  }

  private findAfter(words: readonly string[], acquiredBy: readonly string[]): Effect | null {
    const [keyspace] = this.server.instance.databases;
    if (keyspace === undefined) return null;
    this.clear(keyspace);
    this.nowUs = 0;
    this.server.execute(acquiredBy.map(toBytes), this.session);
    const made = [...keyspace.keys()].flatMap((key) => {
      const entry = keyspace.find(key);
      if (entry === undefined || !words.includes(fromBytes(key))) return [];
      const byScore = latestScore(entry) > 0;
      return [{ key, byScore, endMs: endOf(entry, byScore), texts: textsOf(entry.value).map(fromBytes) }];
    });
    // Later, so that the same TTL ends later.
    this.nowUs = 1000;
    this.server.execute(words.map(toBytes), this.session);
    /** A hash may stay without the token that was in it. A key that has another text is a mark, and there. */
    const endNow = ({ key, byScore, texts }: (typeof made)[number]): number | null => {
      const entry = keyspace.find(key);
      const left = entry === undefined ? [] : textsOf(entry.value).map(fromBytes);
      const isMark = typeof entry?.value === 'string';
      const isTaken =
        !isMark && texts.some((it) => words.includes(it) && Number.isNaN(Number(it)) && !left.includes(it));
      return isTaken ? null : endOf(entry, byScore);
    };
    const changed = made.filter((it) => endNow(it) !== it.endMs);
    this.nowUs = 0;
    const [first] = changed;
    if (first === undefined) return null;
    const keys = changed.map(({ key }) => fromBytes(key));
    const own = words
      .slice(words.indexOf(keys[0] ?? '') + 1)
      .filter((it) => made.some(({ texts }) => texts.includes(it)));
    // A number may be a count that is there as well.
    const value = own.find((it) => Number.isNaN(Number(it))) ?? own[0] ?? null;
    const endMs = endNow(first);
    if (endMs === null) return { operation: 'release', keys, value, ttlMs: 0 };
    const now = keyspace.find(first.key)?.value;
    const replaces = typeof now === 'string' && fromBytes(now) !== first.texts[0] ? { replaces: true } : {};
    return { operation: 'extend', keys, value, ttlMs: endMs === NEVER ? 0 : endMs - 1, ...replaces };
  }

  /** Carries it out where these keys have this value, and gives the keys that are there then. */
  private run(
    argv: readonly string[],
    keys: readonly string[],
    value: string,
  ): { readonly after: Map<string, Entry>; readonly reply: Reply } {
    const after = new Map<string, Entry>();
    const [keyspace] = this.server.instance.databases;
    if (keyspace === undefined) return { after, reply: null };
    this.clear(keyspace);
    for (const key of keys) keyspace.store(key, value, LONG_MS);
    const reply = this.server.execute(argv, this.session);
    for (const key of keyspace.keys()) {
      const entry = keyspace.find(key);
      if (entry !== undefined) after.set(key, entry);
    }
    return { after, reply };
  }

  /** Removes all that commands before have left: keys, and what they have made of their connection (SUBSCRIBE, MULTI, BLPOP). */
  private clear(keyspace: Keyspace): void {
    keyspace.clear();
    this.session = connected();
  }
}

/** A connection to a server that is nobody's. */
function connected(): Session {
  return new Session(1, '127.0.0.1:0', true, 0);
}
