import {
  BigNumber,
  Dated,
  Double,
  Failure,
  MapReply,
  Push,
  printed,
  type Reply,
  SetReply,
  Several,
  Status,
  Verbatim,
} from '../reply.js';
import { formatDouble } from '../text.js';
import { type LuaStack, TYPE } from './stack.js';

const MIN_LONG = -(2n ** 63n);
const ROOM = 8;
/** How deep tables may be nested in a result. Redis goes on to the end of Lua's own stack, at 8000. */
const MAX_DEPTH = 1000;

/** Puts a reply on the stack as a script sees it. @param protocol - What the script has asked for with `setresp`. */
export function pushReply(stack: LuaStack, reply: Reply, protocol: 2 | 3): void {
  switch (typeof reply) {
    case 'string':
      stack.pushText(reply);
      return;
    case 'number':
    case 'bigint':
      stack.pushNumber(Number(reply));
      return;
    case 'boolean':
      protocol === 3 ? stack.pushBoolean(reply) : stack.pushNumber(reply ? 1 : 0);
      return;
    case 'symbol':
      pushNull(stack, protocol);
      return;
    default:
      reply === null ? pushNull(stack, protocol) : pushObject(stack, reply, protocol);
      return;
  }
}

function pushNull(stack: LuaStack, protocol: 2 | 3): void {
  if (protocol === 3) stack.pushNil();
  else stack.pushBoolean(false);
}

function pushSingle(stack: LuaStack, name: string, value: string): void {
  stack.pushTable(0, 1);
  stack.setTextField(name, value);
}

/** A table with one field, which a table with the pairs is. */
function pushNested(stack: LuaStack, name: string, pairs: readonly (readonly [Reply, Reply])[]): void {
  stack.pushTable(0, 1);
  stack.pushText(name);
  stack.pushTable(0, pairs.length);
  for (const [key, value] of pairs) {
    pushReply(stack, key, 3);
    pushReply(stack, value, 3);
    stack.setPair();
  }
  stack.setPair();
}

function pushObject(
  stack: LuaStack,
  reply: Exclude<Reply, string | number | bigint | boolean | symbol | null>,
  protocol: 2 | 3,
): void {
  stack.reserve(ROOM);
  if (reply instanceof Status) {
    pushSingle(stack, 'ok', reply.text);
    return;
  }
  if (reply instanceof Failure) {
    pushSingle(stack, 'err', reply.text);
    return;
  }
  if (reply instanceof Dated) {
    pushReply(stack, reply.reply, protocol);
    return;
  }
  if (reply instanceof Several) {
    pushReply(stack, reply.replies[0] ?? null, protocol);
    return;
  }
  if (reply instanceof Double) {
    if (protocol === 2) {
      stack.pushText(reply.text);
      return;
    }
    stack.pushTable(0, 1);
    stack.pushText('double');
    stack.pushNumber(Number(reply.text.replace('inf', 'Infinity')));
    stack.setPair();
    return;
  }
  if (reply instanceof BigNumber) {
    pushSingle(stack, 'big_number', reply.text);
    return;
  }
  if (reply instanceof Verbatim) {
    if (protocol === 2) {
      stack.pushText(reply.text);
      return;
    }
    pushNested(stack, 'verbatim_string', [
      ['format', reply.format],
      ['string', reply.text],
    ]);
    return;
  }
  if (reply instanceof MapReply) {
    if (protocol === 3) {
      pushNested(stack, 'map', reply.pairs);
      return;
    }
    pushList(stack, reply.pairs.flat(), protocol);
    return;
  }
  if (reply instanceof SetReply) {
    const pairs = reply.items.map((it): [Reply, Reply] => [it, true]);
    if (protocol === 3) pushNested(stack, 'set', pairs);
    else pushList(stack, reply.items, protocol);
    return;
  }
  pushList(stack, reply instanceof Push ? reply.items : reply, protocol);
}

function pushList(stack: LuaStack, items: readonly Reply[], protocol: 2 | 3): void {
  stack.pushTable(items.length, 0);
  for (const [i, item] of items.entries()) {
    pushReply(stack, item, protocol);
    stack.setItem(i + 1);
  }
}

/** A number as C casts it to an integer of 64 bits. */
function toLong(value: number): number | bigint {
  const whole = Math.trunc(value);
  if (Number.isSafeInteger(whole)) return whole === 0 ? 0 : whole;
  if (!Number.isFinite(whole) || whole >= 2 ** 63 || whole < -(2 ** 63)) return MIN_LONG;
  return BigInt(whole);
}

/** What a script's result is as a reply; takes it off the stack. */
export function popReply(stack: LuaStack, protocol: 2 | 3): Reply {
  const reply = readReply(stack, protocol);
  stack.pop();
  return reply;
}

function readReply(stack: LuaStack, protocol: 2 | 3): Reply {
  if (stack.top > MAX_DEPTH || !stack.reserve(ROOM)) return new Failure('ERR reached lua stack limit');
  switch (stack.type(-1)) {
    case TYPE.string:
      return stack.text(-1);
    case TYPE.number:
      return toLong(stack.number(-1));
    case TYPE.boolean:
      return protocol === 3 ? stack.boolean(-1) : stack.boolean(-1) ? 1 : null;
    case TYPE.table:
      return readTable(stack, protocol);
    default:
      return null;
  }
}

/** What a field is, if it is of that type. */
function field<T>(stack: LuaStack, name: string, type: number | undefined, read: () => T): T | undefined {
  stack.getField(name);
  const value = stack.type(-1) === type ? read() : undefined;
  stack.pop();
  return value;
}

function withoutBreaks(text: string): string {
  return text.replace(/[\r\n]/g, ' ');
}

function readTable(stack: LuaStack, protocol: 2 | 3): Reply {
  const text = (): string => stack.text(-1);
  const err = field(stack, 'err', TYPE.string, text);
  if (err !== undefined) return new Failure(withoutBreaks(printed(err.startsWith('-') ? err.slice(1) : err)));
  const ok = field(stack, 'ok', TYPE.string, text);
  if (ok !== undefined) return new Status(withoutBreaks(printed(ok)));
  const double = field(stack, 'double', TYPE.number, () => stack.number(-1));
  if (double !== undefined) return new Double(formatDouble(double));
  const big = field(stack, 'big_number', TYPE.string, text);
  if (big !== undefined) return new BigNumber(withoutBreaks(big));
  const verbatim = field(stack, 'verbatim_string', TYPE.table, () => {
    const format = field(stack, 'format', TYPE.string, text);
    const string = field(stack, 'string', TYPE.string, text);
    return format === undefined || string === undefined ? undefined : new Verbatim(string, format.slice(0, 3));
  });
  if (verbatim !== undefined) return verbatim;
  const map = field(stack, 'map', TYPE.table, () => readPairs(stack, protocol));
  if (map !== undefined) return new MapReply(map);
  const set = field(stack, 'set', TYPE.table, () => readPairs(stack, protocol));
  if (set !== undefined) return new SetReply(set.map(([key]) => key));
  const items: Reply[] = [];
  for (let i = 1; ; i++) {
    stack.getItem(-1, i);
    if (stack.type(-1) === TYPE.nil) {
      stack.pop();
      return items;
    }
    items.push(popReply(stack, protocol));
  }
}

function readPairs(stack: LuaStack, protocol: 2 | 3): [Reply, Reply][] {
  const pairs: [Reply, Reply][] = [];
  stack.pushNil();
  while (stack.next(-2)) {
    const value = popReply(stack, protocol);
    pairs.push([readReply(stack, protocol), value]);
  }
  return pairs;
}
