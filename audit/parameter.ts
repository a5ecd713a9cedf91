/** A parameter of a function, or a property of an object that it takes. */
export interface Parameter {
  readonly name: string;
  /** As it is written; empty where nothing is. */
  readonly type: string;
  readonly isOptional: boolean;
  /** It is a function: its type says so, or it is called. */
  readonly isFunction: boolean;
  /** Nothing but its uses tells of it: of a property that is read of a parameter without a type. */
  readonly isGuessed?: boolean;
  /** What it is where it is left out has a name: a client that the file has made, say. */
  readonly hasDefault?: boolean;
  /** It is what is left of the arguments. */
  readonly isRest?: boolean;
  /** How many ms 1 of it means, where a comment says so. */
  readonly unitMs?: number | null;
  /** It is a callback of Node's style, which is told an error first. */
  readonly isCallback?: boolean;
  /** Its type is of a package that has nothing to do with Redis. */
  readonly isForeign?: boolean;
  /** A client is made of it. */
  readonly opens?: boolean;
  /** A time: a date is made of it, or the clock is compared with it. */
  readonly isTime?: boolean;
  /** It has to be another one than a parameter before it. */
  readonly isOther?: boolean;
  /** It says which lock is meant, whatever its name says. */
  readonly isKey?: boolean;
  /** The properties of an object, or of each in a list, as far as they are known. */
  readonly fields: readonly Parameter[];
}
