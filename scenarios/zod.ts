import { config } from 'zod';
import { en } from 'zod/locales';

/*
 * As much of zod as the grammars speak. The build makes one file of it (`build:zod`): as it comes it is ninety-five, most of
 * them languages, and every command had to load them before its first word.
 */

export type {
  core,
  ZodArray,
  ZodBoolean,
  ZodEnum,
  ZodExactOptional,
  ZodInt,
  ZodNonOptional,
  ZodNull,
  ZodObject,
  ZodString,
  ZodType,
  ZodUnion,
  ZodUnknown,
} from 'zod';
export {
  array,
  boolean,
  discriminatedUnion,
  enum,
  exactOptional,
  gte,
  instanceof,
  int,
  literal,
  lte,
  minLength,
  NEVER,
  nonoptional,
  null,
  number,
  record,
  regex,
  registry,
  strictObject,
  string,
  toJSONSchema,
  union,
  unknown,
} from 'zod';

config(en());
