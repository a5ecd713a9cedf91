import { Failure, fail, type Reply } from '../reply.js';
import { formatDouble } from '../text.js';
import { pushReply } from './convert.js';
import type { ScriptRandom } from './random.js';
import { sha1 } from './sha1.js';
import { type LuaFunction, type LuaStack, RedisError, TYPE } from './stack.js';

/** The server that runs a script. */
export interface ScriptHost {
  /** Carries out a command of the script, in the protocol that it has asked for. */
  call(argv: readonly string[]): Reply;
  /** The protocol of what commands answer; `redis.setresp` sets it. */
  protocol: 2 | 3;
  readonly random: ScriptRandom;
  readonly version: string;
}

/** The text of an error reply with its code: the first word, which a `-` may mark as such. */
function withCode(text: string): string {
  const message = text.startsWith('-') ? text.slice(1) : text;
  return message.includes(' ') ? message : `ERR ${message}`;
}

function wrong(text: string): RedisError {
  return new RedisError(`ERR ${text}`);
}

/** The command of a script: its words, or what is wrong with them. */
function wordsOf(stack: LuaStack): readonly string[] | string {
  const count = stack.top;
  if (count === 0) return 'Please specify at least one argument for this redis lib call';
  const argv: string[] = [];
  for (let i = 1; i <= count; i++) {
    const type = stack.type(i);
    if (type === TYPE.number) argv.push(formatDouble(stack.number(i)));
    else if (type === TYPE.string) argv.push(stack.text(i));
    else return 'Lua redis lib command arguments must be strings or integers';
  }
  return argv;
}

/** `redis.call` and `redis.pcall`. */
const call =
  (current: () => ScriptHost, raises: boolean): LuaFunction =>
  (stack) => {
    const host = current();
    const argv = wordsOf(stack);
    const reply = typeof argv === 'string' ? fail(argv) : host.call(argv);
    if (raises && reply instanceof Failure) throw new RedisError(reply.text);
    stack.module._lua_settop(stack.state, 0);
    pushReply(stack, reply, host.protocol);
    return 1;
  };

const single =
  (kind: 'ok' | 'err'): LuaFunction =>
  (stack) => {
    const isRight = stack.top === 1 && stack.type(1) === TYPE.string;
    const text = isRight ? stack.text(1) : '';
    stack.pushTable(0, 1);
    if (!isRight) stack.setTextField('err', 'ERR wrong number or type of arguments');
    else stack.setTextField(kind, kind === 'ok' ? text : withCode(text));
    return 1;
  };

const sha1hex: LuaFunction = (stack) => {
  if (stack.top !== 1) throw wrong('wrong number of arguments');
  const isText = stack.type(1) === TYPE.string || stack.type(1) === TYPE.number;
  stack.pushText(sha1(isText ? stack.text(1) : ''));
  return 1;
};

const log: LuaFunction = (stack) => {
  if (stack.top < 2) throw wrong('redis.log() requires two arguments or more.');
  if (stack.type(1) !== TYPE.number) throw wrong('First argument must be a number (log level).');
  const level = stack.number(1);
  if (level < 0 || level > 3) throw wrong('Invalid log level.');
  return 0;
};

const BAD_FLAGS = 'Invalid replication flags. Please use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.';

const setRepl: LuaFunction = (stack) => {
  if (stack.top !== 1) throw wrong('redis.set_repl() requires one argument.');
  const flags = stack.number(1);
  if (flags < 0 || flags > 3) throw wrong(BAD_FLAGS);
  return 0;
};

/** The functions of the table `redis`, for the server that runs a script now. */
export function redisLibrary(current: () => ScriptHost): Readonly<Record<string, LuaFunction>> {
  return {
    call: call(current, true),
    pcall: call(current, false),
    error_reply: single('err'),
    status_reply: single('ok'),
    sha1hex,
    log,
    set_repl: setRepl,
    setresp: (stack) => {
      if (stack.top !== 1) throw wrong('redis.setresp() requires one argument.');
      const protocol = Math.trunc(stack.number(1));
      if (protocol !== 2 && protocol !== 3) throw wrong('RESP version must be 2 or 3.');
      current().protocol = protocol;
      return 0;
    },
    acl_check_cmd: (stack) => {
      if (stack.top === 0) throw wrong('Please specify at least one argument for this redis.acl_check_cmd() call');
      stack.pushBoolean(true);
      return 1;
    },
    replicate_commands: (stack) => {
      stack.pushBoolean(true);
      return 1;
    },
    breakpoint: (stack) => {
      stack.pushBoolean(false);
      return 1;
    },
    debug: () => 0,
  };
}
