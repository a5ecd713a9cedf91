import { baseLibrary } from './base.js';
import { BIT } from './bit.js';
import { jsonLibrary } from './json.js';
import { type Registered, registerFunction } from './library.js';
import { MSGPACK } from './msgpack.js';
import { randomLibrary } from './random.js';
import { redisLibrary, type ScriptHost } from './redis-library.js';
import type { LuaFunction } from './stack.js';
import { STRUCT } from './struct.js';

/** What the functions of JavaScript work on. */
interface Sources {
  /** The place of the table of what is read-only. */
  readonly guarded: number;
  readonly host: () => ScriptHost;
  readonly registered: () => Registered | null;
}

/** The functions of JavaScript that scripts call, by their library. */
export function rawLibraries(sources: Sources): Readonly<Record<string, Readonly<Record<string, LuaFunction>>>> {
  const { guarded, host, registered } = sources;
  return {
    bit: BIT,
    struct: STRUCT,
    cmsgpack: MSGPACK,
    cjson: jsonLibrary(),
    math: randomLibrary(() => host().random),
    redis: redisLibrary(host),
    base: baseLibrary(guarded),
    library: { register_function: registerFunction(registered) },
  };
}
