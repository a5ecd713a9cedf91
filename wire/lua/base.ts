import { BadArgument, LuaError, type LuaFunction, type LuaStack, TYPE } from './stack.js';

const REGISTRY = -10_000;

function checkTable(stack: LuaStack): void {
  if (stack.type(1) !== TYPE.table) throw new BadArgument(1, `table expected, got ${stack.typeName(1)}`);
}

/** The functions of Lua that could change what is read-only. @param guarded - The place of the table of such tables. */
export function baseLibrary(guarded: number): Readonly<Record<string, LuaFunction>> {
  const checkWritable = (stack: LuaStack): void => {
    const { module, state } = stack;
    module._lua_rawgeti(state, REGISTRY, guarded);
    module._lua_pushvalue(state, 1);
    module._lua_rawget(state, -2);
    const isGuarded = stack.type(-1) !== TYPE.nil;
    stack.pop(2);
    if (isGuarded) throw new LuaError('Attempt to modify a readonly table', false);
  };
  return {
    rawset: (stack) => {
      checkTable(stack);
      for (const index of [2, 3]) if (stack.type(index) < 0) throw new BadArgument(index, 'value expected');
      checkWritable(stack);
      stack.module._lua_settop(stack.state, 3);
      stack.module._lua_rawset(stack.state, 1);
      return 1;
    },
    setmetatable: (stack) => {
      const { module, state } = stack;
      checkTable(stack);
      const type = stack.type(2);
      if (type !== TYPE.nil && type !== TYPE.table) throw new BadArgument(2, 'nil or table expected');
      checkWritable(stack);
      if (module._lua_getmetatable(state, 1) !== 0) {
        stack.getField('__metatable');
        if (stack.type(-1) !== TYPE.nil) throw new LuaError('cannot change a protected metatable');
      }
      module._lua_settop(state, 2);
      module._lua_setmetatable(state, 1);
      return 1;
    },
  };
}
