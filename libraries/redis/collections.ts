import { copyOf, Hash, List, MemberSet, SortedSet, Stream, type Value } from '../../wire/index.js';

/** A string, or what is in a collection: a lock may be a field, a member or an element. */
export function textsOf(value: Value): readonly string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof List) return value.items;
  if (value instanceof Hash) return [...value.fields].flat();
  if (value instanceof Stream) return value.entries.flatMap(({ fields }) => fields);
  return value instanceof MemberSet ? [...value.members] : value.all().map(({ member }) => member);
}

/** The score of a member of a sorted set; 0 where it is none. */
export function scoreOf(value: Value, member: string): number {
  return value instanceof SortedSet ? (value.score(member) ?? 0) : 0;
}

/** What a key had from an instant on; `null` for a string, which its token tells. */
interface Version {
  readonly token: number;
  readonly atUs: number;
  readonly value: Value | null;
}

/** The collections under the keys of one node. Commands change them in place. */
export class Collections {
  private readonly versions = new Map<string, Version[]>();
  private readonly live = new Map<string, { readonly version: Version; readonly value: Value }>();
  /** Made by a command that has not put anything into it yet. */
  private readonly empty = new Map<string, Value>();
  private made = 0;

  /** The name of a further one that none of its texts names. */
  nextName(node: number): string {
    return `\0${node} ${this.made++}`;
  }

  /** A command makes an empty one, to put something into it. */
  begin(key: string, value: Value): void {
    this.empty.set(key, value);
  }

  /** The collection that a command has changed, and the token that it had; 0 for none. */
  changed(key: string): { readonly token: number; readonly value: Value } | undefined {
    const value = this.empty.get(key);
    this.empty.delete(key);
    if (value !== undefined) return { token: 0, value };
    const live = this.live.get(key);
    return live && { token: live.version.token, value: live.value };
  }

  /** A key has this from now on. With history, what it had before is kept. */
  set(
    key: string,
    token: number,
    value: Value,
    { atUs, keeps }: { readonly atUs: number; readonly keeps: boolean },
  ): void {
    const before = this.versions.get(key);
    const isText = typeof value === 'string';
    if (isText && before === undefined) return;
    const version: Version = { token, atUs, value: isText ? null : keeps ? copyOf(value) : value };
    this.live.set(key, { version, value });
    if (keeps && before !== undefined) before.push(version);
    else this.versions.set(key, [version]);
  }

  /** The key is gone. */
  drop(key: string): void {
    this.live.delete(key);
  }

  /** What a key has of which the node knows this token, written then; `null` for a string. */
  get(key: string, token: number, writtenUs: number): Value | null {
    const version = this.versions.get(key)?.findLast((it) => it.token === token && it.atUs <= writtenUs);
    if (version === undefined || version.value === null) return null;
    const live = this.live.get(key);
    if (live?.version === version) return live.value;
    const value = copyOf(version.value);
    this.live.set(key, { version, value });
    return value;
  }
}
