import { at, integer, option } from '../arguments.js';
import { type Call, type Command, container, type Handler, type Row } from '../command.js';
import type { ScriptHost } from '../lua/redis-library.js';
import { sha1 } from '../lua/sha1.js';
import { scriptOf } from '../lua/shebang.js';
import { Failure, fail, NO_SCRIPT, OK, type Reply } from '../reply.js';

const CHUNK_NAME = '@user_script';

/** Keeps a script that compiles, and says by which name; throws where it does not. */
function keep(text: string, { instance }: Call): string {
  const name = sha1(text);
  if (instance.scripts.has(name)) return name;
  const { body } = scriptOf(text);
  const wrong = instance.machine().compile({ text: body, name: CHUNK_NAME });
  if (wrong !== null) throw fail(`Error compiling script (new function): ${wrong}`);
  instance.scripts.set(name, text);
  return name;
}

function run(argv: readonly string[], name: string | null, isReadOnly: boolean, call: Call): Reply {
  const count = integer(at(argv, 2));
  if (count > argv.length - 3) throw fail("Number of keys can't be greater than number of args");
  if (count < 0) throw fail("Number of keys can't be negative");
  const sha = name ?? keep(at(argv, 1), call);
  const text = call.instance.scripts.get(sha);
  if (text === undefined) throw NO_SCRIPT;
  const { body, flags } = scriptOf(text);
  const host = hostFor(flags, isReadOnly, call);
  const [keys, args] = [argv.slice(3, 3 + count), argv.slice(3 + count)];
  return call.instance.machine().run({ text: body, name: CHUNK_NAME }, keys, args, { host, name: sha });
}

/** What carries out the commands of a script; throws where it may not run. @param flags - `null` where it has said none. */
export function hostFor(flags: ReadonlySet<string> | null, isReadOnly: boolean, call: Call): ScriptHost {
  const writes = flags === null || !flags.has('no-writes');
  if (flags !== null && writes && isReadOnly)
    throw fail('Can not execute a script with write flag using *_ro command.');
  return call.instance.scriptHost(call.session, isReadOnly || !writes);
}

const evaluate =
  (isReadOnly: boolean): Handler =>
  (argv, call) =>
    run(argv, null, isReadOnly, call);

const evaluateSha =
  (isReadOnly: boolean): Handler =>
  (argv, call) => {
    const name = at(argv, 1).toLowerCase();
    if (name.length !== 40) throw NO_SCRIPT;
    return run(argv, name, isReadOnly, call);
  };

const flush: Handler = (argv, { instance }) => {
  if (argv.length > 3 || (argv.length === 3 && !['sync', 'async'].includes(option(argv, 2))))
    throw fail('SCRIPT FLUSH only support SYNC|ASYNC option');
  instance.scripts.clear();
  return OK;
};

const SCRIPT: Command = container('script', 's', {
  exists: [
    -3,
    's',
    (argv, { instance }) => argv.slice(2).map((it) => (instance.scripts.has(it.toLowerCase()) ? 1 : 0)),
  ],
  flush: [-2, 's', flush],
  kill: [
    2,
    's',
    () => {
      throw new Failure('NOTBUSY No scripts in execution right now.');
    },
  ],
  load: [3, 's', (argv, call) => keep(at(argv, 2), call)],
});

/** Running scripts. */
export const SCRIPTING: Readonly<Record<string, Row>> = {
  eval: [-3, 'sp', evaluate(false)],
  eval_ro: [-3, 'rs', evaluate(true)],
  evalsha: [-3, 'sp', evaluateSha(false)],
  evalsha_ro: [-3, 'rs', evaluateSha(true)],
};

/** What is kept of scripts. */
export const SCRIPT_CONTAINERS: readonly Command[] = [SCRIPT];
